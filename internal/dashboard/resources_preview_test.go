package dashboard

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/object"
)

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
	s.options.Sources = func(context.Context) []inspect.Source { return []inspect.Source{source} }
	return k, s, source
}

const editPath = "/resources/configmaps/shop/a/edit"

func TestPreviewWritesNothing(t *testing.T) {
	k, s, source := newPreviewServer(t, v1Object("ConfigMap", map[string]any{"size": "old"}))
	fields := formFields(get(t, s, editPath).Body.String())
	fields.Set("text", strings.Replace(fields.Get("text"), "size: old", "size: new", 1))
	fields.Set("do", doPreview)
	w := post(t, s, editPath, fields)
	page := w.Body.String()
	for _, text := range []string{"diff-del\">  size: old", "diff-add\">  size: new", "diff-add\">  mode: default", "Set by the API server", "plan-del\">- Pod shop/b", `value="save-previewed"`} {
		if !strings.Contains(page, text) {
			t.Errorf("the preview has no %s:\n%s", text, page)
		}
	}
	if w.Code != http.StatusOK || len(k.patches) != 0 || !strings.Contains(source.planned[len(source.planned)-1], `"size":"new"`) {
		t.Errorf("status %d, patches %q, planned %q", w.Code, k.patches, source.planned)
	}

	// Another input than the previewed one is not saved.
	previewed := formFields(page)
	previewed.Set("do", doSavePreviewed)
	other := formFields(strings.ReplaceAll(page, "new", "other"))
	other.Set("do", doSavePreviewed)
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
		"hook down":    {text: "new", planErr: errors.New("connection refused"), status: http.StatusOK, want: []string{"diff-add", "Plan failed", "connection refused", doSavePreviewed}},
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
			fields.Set("do", doPreview)
			if c.change != nil {
				c.change(k)
			}
			w := post(t, s, editPath, fields)
			if w.Code != c.status || len(k.patches) != 0 {
				t.Errorf("status %d, patches %q", w.Code, k.patches)
			}
			for _, text := range c.want {
				if !strings.Contains(w.Body.String(), text) {
					t.Errorf("the page has no %s:\n%s", text, w.Body)
				}
			}
		})
	}
}

func TestPreviewHidesSecrets(t *testing.T) {
	k, s, _ := newPreviewServer(t, v1Object("Secret", map[string]any{"pass": "aHVudGVy", "same": "c2FtZQ=="}))
	const path = "/resources/secrets/shop/a/edit"
	fields := formFields(get(t, s, path+"?as=yaml").Body.String())
	fields.Set("text", strings.Replace(fields.Get("text"), "pass: (unchanged)", "pass: c2VzYW1l", 1))
	fields.Set("do", doPreview)
	_, section, _ := strings.Cut(post(t, s, path, fields).Body.String(), `id="preview"`)
	section, _, _ = strings.Cut(section, "</section>")
	if !strings.Contains(section, "diff-add\">  pass: &#39;*** (hidden), changed&#39;") || strings.Contains(section, "c2Vz") || strings.Contains(section, "digest") || len(k.patches) != 0 {
		t.Errorf("patches %q, preview:\n%s", k.patches, section)
	}
}
