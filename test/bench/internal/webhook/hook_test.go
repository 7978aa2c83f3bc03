package webhook

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/test/bench/internal/probe"
)

func TestHook(t *testing.T) {
	const parent = `"parent":{"metadata":{"name":"thing-00001"},"spec":{"value":"b","children":2}}`
	const desired = `"children":[` +
		`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"thing-00001-0"},"data":{"value":"b"}},` +
		`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"thing-00001-1"},"data":{"value":"b"}}]}`
	tests := map[string]struct{ request, want string }{
		"nothing observed": {
			`{` + parent + `,"children":{"ConfigMap.v1":{}}}`,
			`{"status":{"ready":0,"value":"b"},` + desired,
		},
		"one up to date, one behind": {
			`{` + parent + `,"children":{"ConfigMap.v1":{"x":{"data":{"value":"b"}},"y":{"data":{"value":"a"}}}}}`,
			`{"status":{"ready":1,"value":"b"},` + desired,
		},
		"something related": {
			`{` + parent + `,"children":{},"related":{"ConfigMap.v1":{"s":{"data":{"value":"b"}}}}}`,
			`{"status":{"ready":0,"value":"b"},` + desired,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			w := httptest.NewRecorder()
			handler := &hook{recorder: &probe.Recorder{}}
			handler.serveSync(w, httptest.NewRequest(http.MethodPost, "/sync", strings.NewReader(test.request)))
			if w.Code != http.StatusOK || w.Body.String() != test.want {
				t.Errorf("got %d %s, want %s", w.Code, w.Body, test.want)
			}
		})
	}
}

func TestHookRefusesWhatItCannotRead(t *testing.T) {
	w := httptest.NewRecorder()
	handler := &hook{recorder: &probe.Recorder{}}
	handler.serveSync(w, httptest.NewRequest(http.MethodPost, "/sync", strings.NewReader("{")))
	if w.Code != http.StatusBadRequest {
		t.Errorf("got %d", w.Code)
	}
}

func TestCustomize(t *testing.T) {
	for parent, want := range map[string]string{
		`{"metadata":{"namespace":"n","name":"p"},"spec":{}}`:             `{"relatedResources":[]}`,
		`{"metadata":{"namespace":"n","name":"p"},"spec":{"shared":"s"}}`: `{"relatedResources":[{"apiVersion":"v1","resource":"configmaps","namespace":"n","names":["s"]}]}`,
	} {
		w := httptest.NewRecorder()
		handler := &hook{recorder: &probe.Recorder{}}
		handler.serveCustomize(w, httptest.NewRequest(http.MethodPost, CustomizePath, strings.NewReader(`{"parent":`+parent+`}`)))
		if w.Code != http.StatusOK || w.Body.String() != want {
			t.Errorf("got %d %s, want %s", w.Code, w.Body, want)
		}
	}
}
