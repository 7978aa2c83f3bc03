package related

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/must"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/queue"
)

// fixture is a registry that records the parents it enqueues.
type fixture struct {
	*Registry
	t   *testing.T
	api *server

	mu       sync.Mutex
	enqueued []string
	timers   []func()
}

// newFixture returns a registry whose timers fire when the test calls fireTimers.
func newFixture(t *testing.T, scope Scope) *fixture {
	t.Helper()
	api := newServer(t)
	return newFixtureOn(t, api, Options{Store: api.store(), Scope: scope})
}

func newFixtureOn(t *testing.T, api *server, options Options) *fixture {
	t.Helper()
	d := &fixture{t: t, api: api}
	options.Resolve = resolve
	options.Enqueue = d.enqueue
	d.Registry = New(options)
	d.Registry.after = d.after
	t.Cleanup(d.Close)
	return d
}

func (d *fixture) enqueue(parent queue.Key, changed *object.Object) {
	d.mu.Lock()
	defer d.mu.Unlock()
	cause := "listed"
	if changed != nil {
		cause = changed.Ref().String()
	}
	d.enqueued = append(d.enqueued, parent.String()+": "+cause)
}

func (d *fixture) after(_ time.Duration, do func()) func() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	stopped := false
	d.timers = append(d.timers, func() {
		if !stopped {
			do()
		}
	})
	return func() bool {
		d.mu.Lock()
		defer d.mu.Unlock()
		stopped = true
		return true
	}
}

func (d *fixture) fireTimers() {
	d.mu.Lock()
	canSwitch := d.timers
	d.timers = nil
	d.mu.Unlock()
	for _, do := range canSwitch {
		do()
	}
}

// takeEnqueued removes and returns the enqueued parents.
func (d *fixture) takeEnqueued() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	enqueued := d.enqueued
	d.enqueued = nil
	slices.Sort(enqueued)
	return enqueued
}

// expectEnqueued waits for as many parents as expected.
func (d *fixture) expectEnqueued(want ...string) {
	d.t.Helper()
	must.Eventually(d.t, fmt.Sprint("wakes of ", want), func() bool {
		d.mu.Lock()
		defer d.mu.Unlock()
		return len(d.enqueued) >= len(want)
	})
	slices.Sort(want)
	if got := d.takeEnqueued(); !slices.Equal(got, want) {
		d.t.Fatalf("woke %q, want %q", got, want)
	}
}

func (d *fixture) set(parent string, rules ...hook.RelatedRule) {
	d.t.Helper()
	must.Succeed(d.t, d.Set(d.t.Context(), keyFrom(parent), rules))
}

// waitSynced waits until no watch of a parent is pending.
func (d *fixture) waitSynced(parent string) {
	d.t.Helper()
	must.Eventually(d.t, "watches of "+parent, func() bool { return len(d.Pending(keyFrom(parent))) == 0 })
}

func (d *fixture) expect(parent, want string) {
	d.t.Helper()
	if got := describe(d.t, d.Snapshot(keyFrom(parent)).Groups); got != want {
		d.t.Fatalf("%s is shown %q, want %q", parent, got, want)
	}
}

func (d *fixture) expectOpen(want ...string) {
	d.t.Helper()
	slices.Sort(want)
	var got []string
	must.Eventually(d.t, fmt.Sprint("open watches ", want), func() bool {
		got = got[:0]
		for path := range d.api.open() {
			got = append(got, path)
		}
		slices.Sort(got)
		return slices.Equal(got, want)
	})
}

func describe(t *testing.T, groups []hook.Group) string {
	t.Helper()
	lines := make([]string, len(groups))
	for i, g := range groups {
		lines[i] = g.Kind + "." + g.APIVersion + ":"
		for _, e := range g.Objects {
			o := must.Get(object.Parse(e.Object)).In(t)
			if o.Namespace() != e.Namespace || o.Name() != e.Name {
				t.Fatalf("%s/%s is called %s/%s", o.Namespace(), o.Name(), e.Namespace, e.Name)
			}
			lines[i] += " " + keyFor(e).String() + "=" + strings.Trim(string(o.Field("content")), `"`)
		}
	}
	return strings.Join(lines, ", ")
}

func keyFor(e hook.Entry) queue.Key { return queue.Key{Namespace: e.Namespace, Name: e.Name} }

// keyFrom parses "namespace/name" or "name".
func keyFrom(text string) queue.Key {
	namespace, name, namespaced := strings.Cut(text, "/")
	if !namespaced {
		return queue.Key{Name: text}
	}
	return queue.Key{Namespace: namespace, Name: name}
}

func configMap(key, content string, marks ...string) testObject {
	return newTestObject("configmaps", key, content, marks)
}

func widget(key, content string, marks ...string) testObject {
	return newTestObject("widgets", key, content, marks)
}

func namespace(key string, marks ...string) testObject {
	return newTestObject("namespaces", key, "", marks)
}

func newTestObject(plural, key, content string, marks []string) testObject {
	k := keyFrom(key)
	o := testObject{name: name{plural, k.Namespace, k.Name}, content: content, labels: map[string]string{}}
	for _, mark := range marks {
		label, value, _ := strings.Cut(mark, "=")
		o.labels[label] = value
	}
	return o
}

func labelSelector(marks ...string) *metav1.LabelSelector {
	s := &metav1.LabelSelector{MatchLabels: map[string]string{}}
	for _, mark := range marks {
		label, value, _ := strings.Cut(mark, "=")
		s.MatchLabels[label] = value
	}
	return s
}

// of returns a rule for a kind, with changes.
func of(kind object.Resource, change ...func(*hook.RelatedRule)) hook.RelatedRule {
	rule := hook.RelatedRule{APIVersion: kind.APIVersion(), Resource: kind.Plural}
	for _, c := range change {
		c(&rule)
	}
	return rule
}

func in(namespace string) func(*hook.RelatedRule) {
	return func(r *hook.RelatedRule) { r.Namespace = namespace }
}

func named(names ...string) func(*hook.RelatedRule) {
	return func(r *hook.RelatedRule) { r.Names = names }
}

func labelled(marks ...string) func(*hook.RelatedRule) {
	return func(r *hook.RelatedRule) { r.LabelSelector = labelSelector(marks...) }
}

func near(marks ...string) func(*hook.RelatedRule) {
	return func(r *hook.RelatedRule) { r.NamespaceSelector = labelSelector(marks...) }
}
