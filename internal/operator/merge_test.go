package operator

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/must"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// overlapping declares a kind by two names, one of its categories, and all kinds of its group.
// A merged controller has a handler for each of its parts.
func overlapping(t *testing.T) *Operator {
	t.Helper()
	selectors := map[string]string{
		"any": `{"group": "example.com", "any": true}`, "guitars": `{"group": "example.com", "name": "guitars"}`,
		"gt": `{"name": "gt"}`, "music": `{"group": "example.com", "category": "music"}`, "pods": `{"group": "", "version": "v1", "name": "pods"}`,
	}
	declare := func(names ...string) string {
		var own, handlers []string
		for _, name := range names {
			own = append(own, selectors[name])
			handlers = append(handlers, fmt.Sprintf(`{"name": %q, "reasons": ["Create", "Delete"], "webhook": {"url": "/handlers/%s/%s"}}`, name, strings.Join(names, "+"), name))
		}
		return fmt.Sprintf(`{"apiVersion": "setpoint.dev/v1alpha1", "kind": "HandlerController", "metadata": {"name": %q}, "selectors": [%s], "spec": {"handlers": [%s]}}`,
			names[0], strings.Join(own, ","), strings.Join(handlers, ","))
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/declaration" {
			fmt.Fprintf(w, `{"name": "op", "merged": "/controllers", "controllers": [%s]}`,
				strings.Join([]string{declare("any"), declare("guitars"), declare("gt"), declare("music"), declare("pods")}, ","))
			return
		}
		fmt.Fprint(w, declare(strings.Split(strings.TrimPrefix(r.URL.Path, "/controllers/"), "+")...))
	}))
	t.Cleanup(server.Close)
	op := must.Get(Describe(t.Context(), Options{Remote: Remote{URL: server.URL}, Config: &rest.Config{Host: server.URL}, Log: slog.New(slog.DiscardHandler)})).In(t)
	for _, kind := range servedKinds() {
		if kind.Group != "example.org" {
			op.discovery.groups[0].kinds = append(op.discovery.groups[0].kinds, kind)
		}
	}
	op.discovery.fetchedAt = time.Now().Add(time.Hour)
	return op
}

// Each kind belongs to one controller, that of the narrowest selector, with the handlers of all
// that select it. Records and finalizers of the others are taken over.
func TestOverlappingSelectors(t *testing.T) {
	op := overlapping(t)
	env := compile.Environment{Resolve: func(_ context.Context, apiVersion, plural string) (object.Resource, error) {
		group, version, _ := strings.Cut(apiVersion, "/")
		if version == "" {
			group, version = "", group
		}
		return object.Resource{Group: group, Version: version, Plural: plural, Kind: plural, Namespaced: true}, nil
	}}
	all := must.Get(op.Compile(t.Context(), env)).In(t)
	var got []string
	for i, compiled := range all {
		for j := range compiled.Handlers {
			p := &compiled.Handlers[j]
			var handlers, former []string
			for _, h := range p.Handlers {
				handlers = append(handlers, h.Name)
			}
			for _, record := range p.PreviousRecords {
				former = append(former, record.Annotation)
			}
			got = append(got, fmt.Sprint(op.goControllers()[i].Name, " ", p.Resource, " ", p.Record.Annotation, " ", handlers, " ", former, " ",
				p.Finalizer, " ", p.ReplacedFinalizers))
		}
		for _, note := range compiled.Notes {
			got = append(got, op.goControllers()[i].Name+" "+note)
		}
	}
	const annotation, finalizer = "setpoint.dev/handled-by-handlercontroller-", "setpoint.dev/handlercontroller-"
	want := []string{
		"op/any guitars handles example.com/v2/guitars, with the handlers of this controller",
		"op/any music handles example.com/v1/drums, with the handlers of this controller",
		"op/guitars guitars.example.com/v2 " + annotation + "guitars [guitars gt music any] [" + annotation + "gt " + annotation + "music " + annotation + "any] " +
			finalizer + "guitars [" + finalizer + "gt " + finalizer + "music " + finalizer + "any]",
		"op/gt guitars handles example.com/v2/guitars, with the handlers of this controller",
		"op/music drums.example.com/v1 " + annotation + "music [music any] [" + annotation + "any] " + finalizer + "music [" + finalizer + "any]",
		"op/music guitars handles example.com/v2/guitars, with the handlers of this controller",
		"op/pods pods.v1 " + annotation + "pods [pods] [] " + finalizer + "pods []",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
