package loop_test

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"testing"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/controller/compose"
	"github.com/setpoint-dev/setpoint/internal/explore/loop"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
	"github.com/setpoint-dev/setpoint/internal/queue"
)

var (
	things = object.Resource{Group: "example.com", Version: "v1", Plural: "things", Kind: "Thing", Namespaced: true, Status: true, Custom: true}
	pods   = object.Resource{Version: "v1", Plural: "pods", Kind: "Pod", Namespaced: true, Status: true}
)

// podsOf returns a program whose things have spec.pods pods.
func podsOf() compose.Program {
	return compose.Program{
		Name: "things", Parent: things, GenerateSelector: true, Manager: "things",
		LastApplied: "example.com/last",
		Children:    plan.Rules{{Resource: pods}},
		Sync: hook.Func(func(_ context.Context, r *hook.Request) (*hook.Response, error) {
			var parent struct {
				Metadata struct{ Name string }
				Spec     struct{ Pods int }
			}
			if err := json.Unmarshal(r.Parent, &parent); err != nil {
				return nil, err
			}
			response := &hook.Response{Status: fmt.Appendf(nil, `{"pods":%d}`, len(r.Children[0].Objects))}
			for i := range parent.Spec.Pods {
				response.Children = append(response.Children, fmt.Appendf(nil,
					`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"%s-%d"},"spec":{"image":"a"}}`, parent.Metadata.Name, i))
			}
			return response, nil
		}),
	}
}

func TestFirst(t *testing.T) {
	p, err := loop.New(loop.Programs{Compose: []compose.Program{podsOf()}}, loop.Options{})
	if err != nil {
		t.Fatal(err)
	}
	o, err := object.Parse([]byte(`{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"name":"a","namespace":"n","uid":"u","resourceVersion":"5","generation":1},"spec":{"pods":2}}`))
	if err != nil {
		t.Fatal(err)
	}
	var all iter.Seq2[object.Resource, *object.Object] = func(yield func(object.Resource, *object.Object) bool) { yield(things, o) }
	view := loop.NewView(all)
	items := p.Start(view)
	t.Log(items, p.Omissions())
	step := p.Step(t.Context(), loop.Run{Item: items[0], View: view})
	t.Logf("%s %s %+v", step.Request, step.Request.Body, step)
	_ = queue.Key{}
}

func BenchmarkStep(b *testing.B) {
	p, err := loop.New(loop.Programs{Compose: []compose.Program{podsOf()}}, loop.Options{})
	if err != nil {
		b.Fatal(err)
	}
	o, _ := object.Parse([]byte(`{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"name":"a","namespace":"n","uid":"u","resourceVersion":"5","generation":1},"spec":{"pods":2}}`))
	view := loop.NewView(func(yield func(object.Resource, *object.Object) bool) { yield(things, o) })
	items := p.Start(view)
	b.ReportAllocs()
	for b.Loop() {
		p.Step(b.Context(), loop.Run{Item: items[0], View: view})
	}
}
