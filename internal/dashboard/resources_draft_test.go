package dashboard

import (
	"context"
	"encoding/json"
	"errors"
	"html"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	authorization "k8s.io/api/authorization/v1"

	"github.com/setpoint-dev/setpoint/internal/dashboard/access"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/heaptest"
	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// A form that arrives without a schema can be sent again, and is not read as YAML.
func TestFormWithoutSchema(t *testing.T) {
	s := newFakeAPI(t, map[string]string{
		"/api": `{"items":[]}`, "/openapi/v3": `{"paths":{}}`,
		"/apis": `{"items":[{"metadata":{"name":"example.org"},"versions":[{"version":"v1",
			"resources":[{"resource":"shops","responseKind":{"kind":"Shop"},"scope":"Cluster","verbs":["list"]}]}]}]}`,
	}).newServer(t)
	sent := url.Values{"as": {"form"}, "do": {"save"}, ".spec.name": {`"old" & new`}}
	w := post(t, s, "/resources/shops.example.org/new", sent)
	wantTexts(t, html.UnescapeString(w.Body.String()), `name="as" value="form"`, `name="do" value="save"`, `name=".spec.name" value=""old" & new"`, "Send again")
	if w.Code != http.StatusServiceUnavailable {
		t.Errorf("status %d", w.Code)
	}
}

// A form that is sent while its page loads lacks fields.
func TestPartialFormIsRejected(t *testing.T) {
	k, s := newObjectServer(t, v1Object("ConfigMap", map[string]any{"a": "b"}))
	fields := formFields(get(t, s, "/resources/configmaps/new").Body.String())
	fields.Del("whole")
	if w := post(t, s, "/resources/configmaps/new", fields); w.Code != http.StatusBadRequest || len(k.patches) > 0 {
		t.Errorf("status %d, patches %v:\n%s", w.Code, k.patches, w.Body)
	}
}

// rbacServer is an objectServer with the permissions in allowed, such as "patch configmaps in
// shop". Reviews wait for unblock if it is set.
type rbacServer struct {
	*objectServer
	allowed []string
	unblock chan struct{}
	reviews chan struct{}
}

func (k *rbacServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !strings.HasSuffix(r.URL.Path, "selfsubjectaccessreviews") {
		k.objectServer.ServeHTTP(w, r)
		return
	}
	if k.unblock != nil {
		k.reviews <- struct{}{}
		<-k.unblock
	}
	reviewAccess(w, r, func(of *authorization.ResourceAttributes) bool {
		return slices.Contains(k.allowed, of.Verb+" "+of.Resource+" in "+of.Namespace)
	})
}

// newRBACServer returns a function that posts forms as user ann.
func newRBACServer(t *testing.T, k *rbacServer) func(path string, form url.Values) *httptest.ResponseRecorder {
	t.Helper()
	k.objectServer = &objectServer{version: 1, object: map[string]any{"metadata": map[string]any{"name": "a", "namespace": "shop", "uid": "u"}}}
	server := httptest.NewServer(k)
	t.Cleanup(server.Close)
	s := serverOf(t, server.URL, Options{Access: access.Options{Headers: access.Headers{User: "X-User"}}})
	return func(path string, form url.Values) *httptest.ResponseRecorder {
		return send(s, http.MethodPost, path, strings.NewReader(form.Encode()), "X-User", "ann")
	}
}

// Four concurrent forms of 40 KB, which were compressed, took ten gigabytes of memory from a user without permissions,
// since objects were decoded before permissions were checked. Fault S3.
func TestDraftMemory(t *testing.T) {
	const edit, create = "/resources/configmaps/shop/a/edit", "/resources/configmaps/new"
	many := "a: [" + strings.Repeat("{},", 1<<18) + "{}]"
	for _, test := range []struct {
		name, path string
		allowed    []string
		form       func() url.Values
		code       int
	}{
		{"edit without a right", edit, nil, func() url.Values {
			return url.Values{"base": {many}, "as": {"yaml"}, "text": {many}}
		}, http.StatusForbidden},
		{"create without a right", create, nil, func() url.Values {
			return url.Values{"whole": {"yes"}, "as": {"form"}, ".metadata.namespace": {"shop"}, "turn": {"yaml"}}
		}, http.StatusForbidden},
		{"create as YAML without a right", create, nil, func() url.Values {
			return url.Values{"as": {"yaml"}, "text": {"a: [" + strings.Repeat("{},", 40_000) + "]"}, "turn": {"form"}}
		}, http.StatusForbidden},
		{"many values with a right", edit, []string{"patch configmaps in shop"}, func() url.Values {
			return url.Values{"base": {many}, "as": {"yaml"}, "text": {"a: b"}}
		}, http.StatusBadRequest},
	} {
		t.Run(test.name, func(t *testing.T) {
			send := newRBACServer(t, &rbacServer{allowed: test.allowed})
			form := test.form()
			took := heaptest.Allocated(func() {
				var group sync.WaitGroup
				for range 4 {
					group.Go(func() {
						if w := send(test.path, form); w != nil && w.Code != test.code && w.Code != http.StatusTooManyRequests {
							t.Errorf("status %d:\n%.2000s", w.Code, w.Body)
						}
					})
				}
				group.Wait()
			}) >> 20
			t.Logf("%d MiB for four forms of %d KiB", took, len(form.Encode())>>10)
			if took > 350 {
				t.Errorf("it took %d MiB", took)
			}
		})
	}
}

// A user may send few forms at a time. Others are rejected without being read.
func TestConcurrentDraftLimit(t *testing.T) {
	const drafts = 3 // of one user
	k := &rbacServer{unblock: make(chan struct{}), reviews: make(chan struct{}, 2*drafts)}
	send := newRBACServer(t, k)
	var group sync.WaitGroup
	for range drafts {
		group.Go(func() { send("/resources/configmaps/shop/a/edit", url.Values{"whole": {"yes"}, "as": {"form"}}) })
	}
	for range drafts {
		<-k.reviews
	}
	if w := send("/resources/configmaps/shop/a/edit", url.Values{"whole": {"yes"}, "as": {"form"}}); w.Code != http.StatusTooManyRequests {
		t.Errorf("one too many has status %d:\n%s", w.Code, w.Body)
	}
	close(k.unblock)
	group.Wait()
	if w := send("/resources/configmaps/shop/a/edit", url.Values{"whole": {"yes"}, "as": {"form"}}); w.Code != http.StatusForbidden {
		t.Errorf("afterwards one has status %d:\n%s", w.Code, w.Body)
	}
}

// A rejected form is not lost, and the missing permission is shown with the commands that grant
// it. Faults S3 and U4.
func TestForbiddenCreateKeepsDraft(t *testing.T) {
	send := newRBACServer(t, &rbacServer{allowed: []string{"create configmaps in other"}})
	form := url.Values{"whole": {"yes"}, "as": {"form"}, ".metadata.namespace": {"shop"}, ".metadata.name": {"b"}, "do": {"save"}}
	wantTexts(t, send("/resources/configmaps/new", form).Body.String(),
		"User &#34;ann&#34; cannot create resource &#34;configmaps&#34; in API group &#34;&#34; in the namespace &#34;shop&#34;.", `name=".metadata.name" value="b"`,
		"kubectl create role configmaps-create --verb=create --resource=configmaps -n shop")
	for _, form := range []url.Values{
		{"whole": {"yes"}, "as": {"form"}, ".metadata.namespace": {"other"}, ".metadata.name": {"b"}, "turn": {"yaml"}},
		{"as": {"yaml"}, "text": {"metadata: {name: b, namespace: other}"}, "turn": {"form"}},
	} {
		if w := send("/resources/configmaps/new", form); w.Code != http.StatusOK {
			t.Errorf("with the right in another namespace: %d\n%s", w.Code, w.Body)
		}
	}
}

// previewSource is a process whose controller manages ConfigMaps.
type previewSource struct {
	fakeSource

	planErr error
	planned []string
	// onPlan is called during each plan.
	onPlan func()
}

func (s *previewSource) Plan(_ context.Context, _ string, _ object.Ref, edited json.RawMessage) (inspect.Plan, error) {
	s.planned = append(s.planned, string(edited))
	if s.onPlan != nil {
		s.onPlan()
	}
	return inspect.Plan{Text: "- Pod shop/b", Report: json.RawMessage("{}")}, s.planErr
}

func newPreviewServer(t *testing.T, stored map[string]any) (*objectServer, *Server, *previewSource) {
	t.Helper()
	k, s := newObjectServer(t, stored)
	c := teamsController()
	c.Kinds = []object.Kind{{Version: "v1", Plural: "configmaps", Kind: "ConfigMap", Namespaced: true}}
	source := &previewSource{fakeSource: fakeSource{name: "setpoint", controllers: []inspect.Controller{c}}}
	s.Processes.Running = func(context.Context) []inspect.Source { return []inspect.Source{source} }
	return k, s, source
}

const editPath = "/resources/configmaps/shop/a/edit"

func TestPreviewWritesNothing(t *testing.T) {
	k, s, source := newPreviewServer(t, v1Object("ConfigMap", map[string]any{"size": "old"}))
	fields := formFields(get(t, s, editPath).Body.String())
	fields.Set("text", strings.Replace(fields.Get("text"), "size: old", "size: new", 1))
	fields.Set("do", "preview")
	w := post(t, s, editPath, fields)
	page := w.Body.String()
	wantTexts(t, page, `diff-del"> size: old`, `diff-add"> size: new`, `diff-add"> mode: default`, "Set by the API server",
		`plan-del">- Pod shop/b`, `value="save-previewed"`)
	if w.Code != http.StatusOK || len(k.patches) != 0 || !strings.Contains(source.planned[len(source.planned)-1], `"size":"new"`) {
		t.Errorf("status %d, patches %q, planned %q", w.Code, k.patches, source.planned)
	}

	// Another input than the previewed one is not saved.
	previewed := formFields(page)
	previewed.Set("do", "save-previewed")
	other := formFields(strings.ReplaceAll(page, "new", "other"))
	other.Set("do", "save-previewed")
	if w := post(t, s, editPath, other); !strings.Contains(w.Body.String(), "Not saved: the input changed") || len(k.patches) != 0 {
		t.Errorf("another input: patches %q: %s", k.patches, w.Body)
	}
	if w := post(t, s, editPath, previewed); w.Code != http.StatusSeeOther || len(k.patches) != 1 {
		t.Errorf("saved: status %d, patches %q: %s", w.Code, k.patches, w.Body)
	}
}

func TestPreviewFailures(t *testing.T) {
	for name, c := range map[string]struct {
		text    string
		planErr error
		change  func(*objectServer)
		status  int
		want    []string
	}{
		"hook down":    {text: "new", planErr: errors.New("connection refused"), status: http.StatusOK, want: []string{"diff-add", "Plan failed", "connection refused", "save-previewed"}},
		"not managed":  {text: "new", planErr: failure.ErrNotFound, status: http.StatusOK, want: []string{"diff-add", "No controller of Setpoint manages this object"}},
		"nothing new":  {text: "old", status: http.StatusOK, want: []string{"mode: default"}},
		"invalid YAML": {text: "[", status: http.StatusUnprocessableEntity, want: []string{"YAML: line 4"}},
		"deleted":      {text: "new", change: func(k *objectServer) { k.object = nil }, status: http.StatusNotFound, want: []string{"was deleted while you edited it", "size: new"}},
		"concurrent change": {text: "new", change: func(k *objectServer) { k.concurrentPatch = map[string]any{"data": map[string]any{"color": "red"}} },
			status: http.StatusConflict, want: []string{"changed while you edited it", "data.color", "red", "size: new"}},
	} {
		t.Run(name, func(t *testing.T) {
			k, s, source := newPreviewServer(t, v1Object("ConfigMap", map[string]any{"size": "old"}))
			source.planErr = c.planErr
			fields := formFields(get(t, s, editPath).Body.String())
			fields.Set("text", strings.Replace(fields.Get("text"), "size: old", "size: "+c.text, 1))
			fields.Set("do", "preview")
			if c.change != nil {
				c.change(k)
			}
			w := post(t, s, editPath, fields)
			if w.Code != c.status || len(k.patches) != 0 {
				t.Errorf("status %d, patches %q", w.Code, k.patches)
			}
			wantTexts(t, w.Body.String(), c.want...)
		})
	}
}

func TestPreviewHidesSecrets(t *testing.T) {
	k, s, _ := newPreviewServer(t, v1Object("Secret", map[string]any{"pass": "aHVudGVy", "same": "c2FtZQ=="}))
	const path = "/resources/secrets/shop/a/edit"
	fields := formFields(get(t, s, path+"?as=yaml").Body.String())
	fields.Set("text", strings.Replace(fields.Get("text"), "pass: (unchanged)", "pass: c2VzYW1l", 1))
	fields.Set("do", "preview")
	_, section, _ := strings.Cut(post(t, s, path, fields).Body.String(), `id="preview"`)
	section, _, _ = strings.Cut(section, "</section>")
	if !strings.Contains(section, "diff-add\">  pass: &#39;*** (hidden), changed&#39;") || strings.Contains(section, "c2Vz") || strings.Contains(section, "digest") || len(k.patches) != 0 {
		t.Errorf("patches %q, preview:\n%s", k.patches, section)
	}
}
