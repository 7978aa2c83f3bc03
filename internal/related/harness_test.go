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
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/queue"
)

// desk is a registry with somebody who sits beside it and notes whom it wakes.
type desk struct {
	*Registry
	t   *testing.T
	api *server

	mu     sync.Mutex
	woken  []string
	timers []func()
}

// newDesk returns a registry whose timers run out when the test says so.
func newDesk(t *testing.T, scope Scope) *desk {
	t.Helper()
	api := newServer(t)
	return sit(t, api, Options{Store: api.store(), Scope: scope})
}

func sit(t *testing.T, api *server, options Options) *desk {
	t.Helper()
	d := &desk{t: t, api: api}
	options.Resolve = resolve
	options.Wake = d.wake
	if options.After == nil {
		options.After = d.after
	}
	d.Registry = New(options)
	t.Cleanup(d.Close)
	return d
}

func (d *desk) wake(parent queue.Key, changed *object.Object) {
	d.mu.Lock()
	defer d.mu.Unlock()
	cause := "listed"
	if changed != nil {
		cause = changed.Ref().String()
	}
	d.woken = append(d.woken, parent.String()+": "+cause)
}

func (d *desk) after(_ time.Duration, do func()) func() bool {
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

// timePasses has all timers run out.
func (d *desk) timePasses() {
	d.mu.Lock()
	due := d.timers
	d.timers = nil
	d.mu.Unlock()
	for _, do := range due {
		do()
	}
}

// wakes takes what was noted.
func (d *desk) wakes() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	woken := d.woken
	d.woken = nil
	slices.Sort(woken)
	return woken
}

// expectWakes waits until as many were woken as are wanted.
func (d *desk) expectWakes(want ...string) {
	d.t.Helper()
	eventually(d.t, fmt.Sprint("wakes of ", want), func() bool {
		d.mu.Lock()
		defer d.mu.Unlock()
		return len(d.woken) >= len(want)
	})
	slices.Sort(want)
	if got := d.wakes(); !slices.Equal(got, want) {
		d.t.Fatalf("woke %q, want %q", got, want)
	}
}

func (d *desk) set(parent string, rules ...hook.RelatedRule) {
	d.t.Helper()
	if err := d.Set(d.t.Context(), keyFrom(parent), rules); err != nil {
		d.t.Fatal(err)
	}
}

// settle waits until a parent lacks nothing.
func (d *desk) settle(parent string) {
	d.t.Helper()
	eventually(d.t, "watches of "+parent, func() bool { return len(d.Lacking(keyFrom(parent))) == 0 })
}

// shows says what a parent is shown, such as "ConfigMap.v1: a/b=content".
func (d *desk) shows(parent string) string {
	d.t.Helper()
	return say(d.t, d.Shown(keyFrom(parent)).Groups)
}

func (d *desk) expect(parent, want string) {
	d.t.Helper()
	if got := d.shows(parent); got != want {
		d.t.Fatalf("%s is shown %q, want %q", parent, got, want)
	}
}

func (d *desk) expectOpen(want ...string) {
	d.t.Helper()
	slices.Sort(want)
	var got []string
	eventually(d.t, fmt.Sprint("open watches ", want), func() bool {
		got = got[:0]
		for path := range d.api.open() {
			got = append(got, path)
		}
		slices.Sort(got)
		return slices.Equal(got, want)
	})
}

func say(t *testing.T, groups []hook.Group) string {
	t.Helper()
	said := make([]string, len(groups))
	for i, g := range groups {
		said[i] = g.Kind + "." + g.APIVersion + ":"
		for _, e := range g.Objects {
			o, err := object.Parse(e.Object)
			if err != nil {
				t.Fatal(err)
			}
			if o.Namespace() != e.Namespace || o.Name() != e.Name {
				t.Fatalf("%s/%s is called %s/%s", o.Namespace(), o.Name(), e.Namespace, e.Name)
			}
			said[i] += " " + keyFor(e).String() + "=" + strings.Trim(string(o.Field("content")), `"`)
		}
	}
	return strings.Join(said, ", ")
}

func keyFor(e hook.Entry) queue.Key { return queue.Key{Namespace: e.Namespace, Name: e.Name} }

// keyFrom reads "namespace/name" or "name".
func keyFrom(text string) queue.Key {
	namespace, name, namespaced := strings.Cut(text, "/")
	if !namespaced {
		return queue.Key{Name: text}
	}
	return queue.Key{Namespace: namespace, Name: name}
}

func configMap(key, content string, marks ...string) thing {
	return thingOf("configmaps", key, content, marks)
}

func widget(key, content string, marks ...string) thing {
	return thingOf("widgets", key, content, marks)
}

func namespace(key string, marks ...string) thing { return thingOf("namespaces", key, "", marks) }

func thingOf(plural, key, content string, marks []string) thing {
	k := keyFrom(key)
	o := thing{name: name{plural, k.Namespace, k.Name}, content: content, labels: map[string]string{}}
	for _, mark := range marks {
		label, value, _ := strings.Cut(mark, "=")
		o.labels[label] = value
	}
	return o
}

func selector(marks ...string) *metav1.LabelSelector {
	s := &metav1.LabelSelector{MatchLabels: map[string]string{}}
	for _, mark := range marks {
		label, value, _ := strings.Cut(mark, "=")
		s.MatchLabels[label] = value
	}
	return s
}

// of is a rule about a kind, with changes.
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
	return func(r *hook.RelatedRule) { r.LabelSelector = selector(marks...) }
}

func near(marks ...string) func(*hook.RelatedRule) {
	return func(r *hook.RelatedRule) { r.NamespaceSelector = selector(marks...) }
}
