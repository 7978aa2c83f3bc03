package dashboard

import (
	"bytes"
	"compress/flate"
	"context"
	"encoding/base64"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"

	authorization "k8s.io/api/authorization/v1"
	"k8s.io/client-go/rest"

	"github.com/setpoint-dev/setpoint/internal/dashboard/access"
	"github.com/setpoint-dev/setpoint/internal/dashboard/userclient"
	"github.com/setpoint-dev/setpoint/internal/heaptest"
	"github.com/setpoint-dev/setpoint/internal/inspect"
)

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
	var review authorization.SelfSubjectAccessReview
	if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
		k.t.Error(err)
	}
	if k.unblock != nil {
		k.reviews <- struct{}{}
		<-k.unblock
	}
	of := review.Spec.ResourceAttributes
	for _, each := range k.allowed {
		if each == of.Verb+" "+of.Resource+" in "+of.Namespace {
			review.Status.Allowed = true
		}
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(review)
}

// newRBACServer returns a function that posts forms as user ann.
func newRBACServer(t *testing.T, k *rbacServer) func(path string, form url.Values) *httptest.ResponseRecorder {
	t.Helper()
	k.objectServer = &objectServer{t: t, version: 1, object: map[string]any{"metadata": map[string]any{"name": "a", "namespace": "shop", "uid": "u"}}}
	server := httptest.NewServer(k)
	t.Cleanup(server.Close)
	c, err := userclient.New(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	s, err := New(Options{
		Cluster: c, Access: access.Options{Headers: access.Headers{User: "X-User"}}, Log: slog.New(slog.DiscardHandler),
		Sources: func(context.Context) []inspect.Source { return nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	return func(path string, form url.Values) *httptest.ResponseRecorder {
		r := httptest.NewRequest(http.MethodPost, "http://localhost"+path, strings.NewReader(form.Encode()))
		r.RemoteAddr = "127.0.0.1:1234"
		r.Header.Set("X-User", "ann")
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		req, err := s.authenticator.Authenticate(fromOwner(s, r))
		if err != nil {
			t.Error(err)
			return nil
		}
		r.Header.Set("X-Csrf-Token", req.CSRF)
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		return w
	}
}

// bomb returns compressed JSON of a size.
func bomb(t *testing.T, of string, size int) string {
	t.Helper()
	var out bytes.Buffer
	letters := base64.NewEncoder(base64.RawURLEncoding, &out)
	small, err := flate.NewWriter(letters, flate.BestCompression)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.WriteString(small, `{"a":[`+strings.Repeat(of+",", size/(len(of)+1))+of+`]}`)
	if small.Close() != nil || letters.Close() != nil {
		t.Fatal("it cannot be packed")
	}
	return out.String()
}

// Four concurrent forms of 40 KB took ten gigabytes of memory from a user without permissions,
// since objects were decoded before permissions were checked. Fault S3.
func TestDraftMemory(t *testing.T) {
	const edit, create = "/resources/configmaps/shop/a/edit", "/resources/configmaps/new"
	for _, test := range []struct {
		name, path string
		allowed    []string
		form       func() url.Values
		code       int
	}{
		{"edit without a right", edit, nil, func() url.Values {
			return url.Values{"base": {bomb(t, "{}", 15<<20)}, "as": {"yaml"}, "text": {"a: b"}}
		}, http.StatusForbidden},
		{"create without a right", create, nil, func() url.Values {
			return url.Values{"whole": {"yes"}, "as": {"form"}, ".metadata.namespace": {"shop"}, "turn": {"yaml"}}
		}, http.StatusForbidden},
		{"create as YAML without a right", create, nil, func() url.Values {
			return url.Values{"as": {"yaml"}, "text": {"a: [" + strings.Repeat("{},", 40_000) + "]"}, "turn": {"form"}}
		}, http.StatusForbidden},
		{"large with a right", edit, []string{"patch configmaps in shop"}, func() url.Values {
			return url.Values{"base": {bomb(t, "{}", 15<<20)}, "as": {"yaml"}, "text": {"a: b"}}
		}, http.StatusBadRequest},
		{"many values with a right", edit, []string{"patch configmaps in shop"}, func() url.Values {
			return url.Values{"base": {bomb(t, "{}", 4<<20)}, "as": {"yaml"}, "text": {"a: b"}}
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
	k := &rbacServer{unblock: make(chan struct{}), reviews: make(chan struct{}, 2*maxDrafts)}
	send := newRBACServer(t, k)
	var group sync.WaitGroup
	for range maxDrafts {
		group.Go(func() { send("/resources/configmaps/shop/a/edit", url.Values{"whole": {"yes"}, "as": {"form"}}) })
	}
	for range maxDrafts {
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
	page := send("/resources/configmaps/new", form).Body.String()
	for _, want := range []string{
		"User &#34;ann&#34; cannot create resource &#34;configmaps&#34; in API group &#34;&#34; in the namespace &#34;shop&#34;.", `name=".metadata.name" value="b"`,
		"kubectl create role configmaps-create --verb=create --resource=configmaps -n shop",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q:\n%s", want, page)
		}
	}
	for _, form := range []url.Values{
		{"whole": {"yes"}, "as": {"form"}, ".metadata.namespace": {"other"}, ".metadata.name": {"b"}, "turn": {"yaml"}},
		{"as": {"yaml"}, "text": {"metadata: {name: b, namespace: other}"}, "turn": {"form"}},
	} {
		if w := send("/resources/configmaps/new", form); w.Code != http.StatusOK {
			t.Errorf("with the right in another namespace: %d\n%s", w.Code, w.Body)
		}
	}
}
