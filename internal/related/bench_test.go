package related

import (
	"fmt"
	"slices"
	"testing"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/cache"
	"github.com/setpoint-dev/setpoint/internal/must"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/queue"
)

const manyParents = 2000

// newBenchRegistry gives many parents rules and returns the watch that all of them share.
func newBenchRegistry(b *testing.B, wake func(queue.Key, *object.Object), rules func(i int) []hook.RelatedRule) (*Registry, *sharedWatch, *server) {
	b.Helper()
	api := newServer(b)
	api.put(configMap("a/one", "1"))
	r := New(Options{Store: api.store(), Scope: v2Cluster, Resolve: resolve, Enqueue: wake})
	b.Cleanup(r.Close)
	for i := range manyParents {
		must.Succeed(b, r.Set(b.Context(), parentKey(i), rules(i)))
	}
	must.Eventually(b, "all served", func() bool { return len(r.Pending(parentKey(0))) == 0 })
	i := slices.IndexFunc(r.Watches(), func(w cache.Stat) bool { return w.Objects == 1 })
	return r, r.watches[r.Watches()[i].Selection], api
}

func parentKey(i int) queue.Key { return queue.Key{Namespace: "a", Name: fmt.Sprint("parent-", i)} }

// One object changes that many parents read: the time until all are enqueued.
func BenchmarkEnqueue(b *testing.B) {
	shared := of(configMaps, in("a"), named("one"))
	for what, rules := range map[string]func(int) []hook.RelatedRule{
		"same rules": func(int) []hook.RelatedRule { return []hook.RelatedRule{shared} },
		"own rule sets": func(i int) []hook.RelatedRule {
			return []hook.RelatedRule{shared, of(configMaps, in("b"), named(fmt.Sprint("c", i)))}
		},
		"own rules": func(i int) []hook.RelatedRule {
			return []hook.RelatedRule{of(configMaps, in("a"), named("one", fmt.Sprint("c", i)))}
		},
	} {
		b.Run(what, func(b *testing.B) {
			enqueued := 0
			_, t, _ := newBenchRegistry(b, func(queue.Key, *object.Object) { enqueued++ }, rules)
			one, other := t.view.Get("a", "one"), parsed(b, "2")
			b.ReportAllocs()
			for b.Loop() {
				// The view keeps its content, so call the rules directly.
				enqueued = 0
				t.registry.eventID++
				for user := range t.index.of(one) {
					user.objectChanged(change{object: other, current: other})
				}
				one, other = other, one
			}
			if enqueued != manyParents {
				b.Fatalf("%d woken", enqueued)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/manyParents, "ns/parent")
		})
	}
}

// The same with a real queue.
func BenchmarkEnqueueIntoQueue(b *testing.B) {
	q := queue.New(queue.Options{})
	_, t, _ := newBenchRegistry(b, func(parent queue.Key, changed *object.Object) {
		if changed != nil {
			q.Add(parent, queue.Cause{Kind: queue.RelatedChanged, Detail: changed.Kind(), Object: queue.Key{Namespace: changed.Namespace(), Name: changed.Name()}})
		}
	}, func(int) []hook.RelatedRule { return []hook.RelatedRule{of(configMaps, in("a"), named("one"))} })
	one, other := t.view.Get("a", "one"), parsed(b, "2")
	b.ReportAllocs()
	for b.Loop() {
		t.registry.eventID++
		for user := range t.index.of(one) {
			user.objectChanged(change{object: other, current: other})
		}
		one, other = other, one
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/manyParents, "ns/parent")
}

// An object changes that none of many rules selects.
func BenchmarkUnrelatedEvent(b *testing.B) {
	_, t, _ := newBenchRegistry(b, func(queue.Key, *object.Object) {}, func(i int) []hook.RelatedRule {
		own := fmt.Sprint("c", i)
		return []hook.RelatedRule{
			of(configMaps, in(own)), of(configMaps, named(own)), of(configMaps, labelled("app="+own)), of(configMaps, near("team="+own)),
		}
	})
	one := t.view.Get("a", "one")
	b.ReportAllocs()
	for b.Loop() {
		t.changed(cache.Event{Old: one, New: one}, (*sharedRule).objectChanged)
	}
}

// Many parents share a rule set with many objects, and each takes a snapshot after a change.
func BenchmarkSnapshot(b *testing.B) {
	r, t, api := newBenchRegistry(b, func(queue.Key, *object.Object) {}, func(int) []hook.RelatedRule { return []hook.RelatedRule{of(configMaps)} })
	for i := range 1000 {
		api.put(configMap(fmt.Sprintf("a/o%d", i), "1"))
	}
	must.Eventually(b, "all objects", func() bool { return t.view.Len() == 1001 })
	one, other := t.view.Get("a", "one"), parsed(b, "2")
	b.ReportAllocs()
	for b.Loop() {
		for user := range t.index.of(one) {
			user.objectChanged(change{object: other, current: other})
		}
		for i := range manyParents {
			r.Snapshot(parentKey(i))
		}
		one, other = other, one
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/manyParents, "ns/parent")
}

// A customize hook returns the same rules as before.
func BenchmarkSet(b *testing.B) {
	rules := []hook.RelatedRule{of(configMaps, in("a"), named("one")), of(configMaps, labelled("app=x")), of(widgets)}
	r, _, _ := newBenchRegistry(b, func(queue.Key, *object.Object) {}, func(int) []hook.RelatedRule { return []hook.RelatedRule{of(configMaps)} })
	b.ReportAllocs()
	for b.Loop() {
		must.Succeed(b, r.Set(b.Context(), parentKey(0), rules))
	}
}

func parsed(b *testing.B, content string) *object.Object {
	b.Helper()
	return must.Get(object.Parse([]byte(configMap("a/one", content).json(1, false)))).In(b)
}
