package apply_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/apply"
	"github.com/setpoint-dev/setpoint/internal/object"
)

var pods = object.Resource{Version: "v1", Plural: "pods", Kind: "Pod", Namespaced: true}

func TestRequestsWithoutAPlan(t *testing.T) {
	const deletion = `"kind":"DeleteOptions","apiVersion":"v1","preconditions":{"uid":"u-1"},"propagationPolicy":"Background"`
	o := parse(t, wanted)
	for name, c := range map[string]struct {
		write      func(ctx context.Context, w *apply.Writer) error
		want, kind string
	}{
		"patch": {func(ctx context.Context, w *apply.Writer) error {
			_, err := w.Patch(ctx, configMaps, o, []byte(`{"a":1}`), "")
			return err
		}, `PATCH /api/v1/namespaces/town/configmaps/a?fieldManager=setpoint {"a":1}`, "application/merge-patch+json"},
		"status": {func(ctx context.Context, w *apply.Writer) error {
			_, err := w.Patch(ctx, shops, o, []byte(`{"status":{}}`), apply.Status)
			return err
		}, `PATCH /apis/example.org/v1/namespaces/town/shops/a/status?fieldManager=setpoint&fieldValidation=Ignore {"status":{}}`, "application/merge-patch+json"},
		"apply": {func(ctx context.Context, w *apply.Writer) error {
			_, err := w.Apply(ctx, configMaps, o, "rates")
			return err
		}, `PATCH /api/v1/namespaces/town/configmaps/a?fieldManager=rates&force=true ` + wanted, "application/apply-patch+yaml"},
		"evict": {func(ctx context.Context, w *apply.Writer) error { return w.Evict(ctx, pods, o) },
			`POST /api/v1/namespaces/town/pods/a/eviction?fieldManager=setpoint {"kind":"Eviction","apiVersion":"policy/v1",` +
				`"metadata":{"name":"a","namespace":"town"},"deleteOptions":{` + deletion + `}}`, "application/json"},
	} {
		t.Run(name, func(t *testing.T) {
			var s server
			var kind string
			err := c.write(t.Context(), s.writer(t, apply.Options{}, func(w http.ResponseWriter, r *http.Request) {
				kind = r.Header.Get("Content-Type")
				_, _ = io.WriteString(w, stored)
			}))
			if err != nil || s.requests[0] != c.want || kind != c.kind {
				t.Errorf("%v: sent %s as %s\nwant %s", err, s.requests[0], kind, c.want)
			}
		})
	}
}

func TestEvictions(t *testing.T) {
	pod := parse(t, wanted)
	for name, c := range map[string]struct {
		code          int
		fine, refused bool
	}{
		"evicted": {http.StatusCreated, true, false},
		"gone":    {http.StatusNotFound, true, false},
		"budget":  {http.StatusTooManyRequests, false, true},
		"another": {http.StatusConflict, false, false},
	} {
		var s server
		respond := writeJSON(c.code, status(c.code, map[int]string{404: "NotFound", 409: "Conflict", 429: "TooManyRequests"}[c.code], "no", ""))
		err := s.writer(t, apply.Options{}, respond).Evict(t.Context(), pods, pod)
		if (err == nil) != c.fine || apply.TooManyRequests(err) != c.refused || len(s.requests) != 1 {
			t.Errorf("%s: %v after %d requests", name, err, len(s.requests))
		}
	}
}

func TestListsComeInPages(t *testing.T) {
	var s server
	w := s.writer(t, apply.Options{}, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("continue") == "" {
			_, _ = io.WriteString(w, `{"metadata":{"continue":"more"},"items":[{"metadata":{"name":"a"}}]}`)
			return
		}
		_, _ = io.WriteString(w, `{"metadata":{},"items":[{"metadata":{"name":"b"}}]}`)
	})
	all, err := w.List(t.Context(), pods, "town", "app=web")
	if err != nil || len(all) != 2 || all[1].Name() != "b" || all[1].Kind() != "Pod" {
		t.Errorf("read %v, %v", all, err)
	}
	if len(s.requests) != 2 || !strings.Contains(s.requests[1], "continue=more") || !strings.Contains(s.requests[1], "labelSelector=app%3Dweb") {
		t.Errorf("requests %q", s.requests)
	}
}
