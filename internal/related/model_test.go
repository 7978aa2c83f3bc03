package related

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/must"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/queue"
)

// TestModel changes rules and objects at random. A reader reads the related objects of a parent
// only after it has set its rules or the parent was enqueued. In the end it must have seen what
// matching every rule with every object gives.
func TestModel(t *testing.T) {
	everyModel(t, func(m *model, r *rand.Rand) {
		for range 30 {
			var steps []string
			for range 1 + r.IntN(10) {
				steps = append(steps, m.step(r))
				m.takeEnqueued()
			}
			m.converge(strings.Join(steps, "\n"))
		}
	})
}

// Every watch catches up after each change, so no parent may be enqueued without a change.
func TestModelInLockstep(t *testing.T) {
	everyModel(t, func(m *model, r *rand.Rand) {
		for range 80 {
			before := m.expected()
			what := m.step(r)
			enqueued := m.converge(what)
			m.catchUp()
			maps.Copy(enqueued, m.takeEnqueued())
			want := m.expected()
			for parent := range enqueued {
				overlapping := len(m.rules[parent]) > 1
				if before[parent] == want[parent] && !overlapping && parent != m.set {
					m.t.Fatalf("after %s: %s was woken for nothing; its rules: %+v", what, parent, m.rules[parent])
				}
			}
		}
	})
}

func everyModel(t *testing.T, run func(*model, *rand.Rand)) {
	t.Helper()
	start := rand.Uint64()
	for i := range uint64(5) {
		t.Run(fmt.Sprint(start+i), func(t *testing.T) {
			r := rand.New(rand.NewPCG(start+i, 0))
			run(newModel(t, r, Scope{Version: hook.Version(r.IntN(2)), Namespaced: r.IntN(2) == 0}), r)
		})
	}
}

// model is the reader.
type model struct {
	*Registry
	t     *testing.T
	api   *server
	scope Scope
	rules map[string][]hook.RelatedRule

	// set is the parent whose rules were set in this step.
	set      string
	seen     map[string]string
	mu       sync.Mutex
	enqueued map[string]bool
}

func newModel(t *testing.T, r *rand.Rand, scope Scope) *model {
	t.Helper()
	m := &model{
		t: t, api: newServer(t), scope: scope, rules: map[string][]hook.RelatedRule{},
		enqueued: map[string]bool{}, seen: map[string]string{},
	}
	for range 30 {
		m.edit(r)
	}
	m.Registry = New(Options{Store: m.api.store(), Scope: scope, Resolve: resolve, Enqueue: func(parent queue.Key, _ *object.Object) {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.enqueued[parent.String()] = true
	}})
	// Timers run a thousand times as fast.
	m.after = func(d time.Duration, do func()) func() bool { return time.AfterFunc(d/1000, do).Stop }
	t.Cleanup(m.Close)
	return m
}

func (m *model) step(r *rand.Rand) string {
	m.set = ""
	if r.IntN(3) > 0 {
		return m.edit(r)
	}
	parent := pick(r, m.parents()...)
	if r.IntN(5) == 0 {
		m.Drop(keyFrom(parent))
		delete(m.rules, parent)
		delete(m.seen, parent)
		return "drop " + parent
	}
	rules := make([]hook.RelatedRule, r.IntN(4))
	for i := range rules {
		rules[i] = randomRule(r)
	}
	err := m.Set(context.Background(), keyFrom(parent), rules)
	if legal := m.valid(parent, rules); legal != (err == nil) {
		m.t.Fatalf("rules of %s: %v, legal: %v; %+v", parent, err, legal, rules)
	}
	if err == nil {
		m.rules[parent] = rules
		m.set = parent
		m.observe(parent)
	}
	return fmt.Sprintf("set %s: %+v", parent, rules)
}

// parents returns few parents, some of which share a namespace.
func (m *model) parents() []string {
	var parents []string
	for i := range 14 {
		parent := fmt.Sprint("p", i)
		if m.scope.Namespaced {
			parent = fmt.Sprintf("n%d/%s", i%4, parent)
		}
		parents = append(parents, parent)
	}
	return parents
}

func (m *model) edit(r *rand.Rand) string {
	marks := []string{"a=" + pick(r, "1", "2"), "b=" + pick(r, "1", "2", "3")}[:r.IntN(3)]
	ns, label := pick(r, "n0", "n1", "n2", "n3"), pick(r, "x", "y", "z")
	o := namespace(ns, marks...)
	switch r.IntN(6) {
	case 0:
		o = widget(label, pick(r, "1", "2"), marks...)
	case 1:
	default:
		o = configMap(ns+"/"+label, pick(r, "1", "2"), marks...)
	}
	if r.IntN(4) == 0 {
		m.api.delete(o.name)
		return fmt.Sprint("delete ", o.name)
	}
	m.api.put(o)
	return fmt.Sprintf("put %+v", o)
}

func pick(r *rand.Rand, texts ...string) string { return texts[r.IntN(len(texts))] }

func randomRule(r *rand.Rand) hook.RelatedRule {
	rule := of([]object.Resource{configMaps, configMaps, configMaps, widgets, namespaces}[r.IntN(5)])
	switch r.IntN(8) {
	case 0:
	case 1:
		rule.Names = slices.Repeat([]string{pick(r, "x", "y"), pick(r, "x", "none", "")}, 1+r.IntN(2))
	case 2, 3:
		rule.Namespace = pick(r, "n0", "n1", "n2")
		rule.Names = []string{"x", "y", "z", "1", "2", "3"}[r.IntN(3) : 3+r.IntN(4)]
	case 4:
		rule.Namespace = pick(r, "n0", "n1", "n2")
		rule.LabelSelector = randomSelector(r)
	case 5:
		rule.LabelSelector = randomSelector(r)
	case 6:
		rule.NamespaceSelector = randomSelector(r)
	case 7:
		rule.NamespaceSelector, rule.LabelSelector = randomSelector(r), randomSelector(r)
	}
	return rule
}

func randomSelector(r *rand.Rand) *metav1.LabelSelector {
	s := &metav1.LabelSelector{}
	if r.IntN(2) == 0 {
		s.MatchLabels = map[string]string{pick(r, "a", "b"): pick(r, "1", "2")}
	}
	if r.IntN(2) == 0 {
		one := metav1.LabelSelectorRequirement{Key: pick(r, "a", "b"), Operator: metav1.LabelSelectorOpIn, Values: []string{"1", pick(r, "2", "3")}}
		if r.IntN(3) == 0 {
			one.Operator = metav1.LabelSelectorOpNotIn
		}
		if r.IntN(3) == 0 {
			one.Operator, one.Values = metav1.LabelSelectorOpExists, nil
		}
		s.MatchExpressions = append(s.MatchExpressions, one)
	}
	return s
}

// valid reports whether rules are valid according to the documentation.
func (m *model) valid(parent string, rules []hook.RelatedRule) bool {
	return !slices.ContainsFunc(rules, func(rule hook.RelatedRule) bool {
		spaced := rule.Resource == "configmaps"
		confined := m.scope.ownNamespaceOnly() && spaced
		return rule.NamespaceSelector != nil && (!spaced || confined) ||
			confined && rule.Namespace != "" && rule.Namespace != keyFrom(parent).Namespace
	})
}

// expected returns the related objects of each parent.
func (m *model) expected() map[string]string {
	objects := m.api.all()
	names := slices.SortedFunc(maps.Keys(objects), func(a, b name) int {
		return strings.Compare(a.namespace+"/"+a.name, b.namespace+"/"+b.name)
	})
	shown := map[string]string{}
	for parent, rules := range m.rules {
		var groups []string
		for _, kind := range []object.Resource{configMaps, namespaces, widgets} {
			about := slices.DeleteFunc(slices.Clone(rules), func(rule hook.RelatedRule) bool { return rule.Resource != kind.Plural })
			if len(about) == 0 {
				continue
			}
			group := kind.Kind + "." + kind.APIVersion() + ":"
			for _, n := range names {
				if slices.ContainsFunc(about, func(rule hook.RelatedRule) bool { return m.selects(parent, rule, objects[n], objects) }) {
					group += " " + (queue.Key{Namespace: n.namespace, Name: n.name}).String() + "=" + fmt.Sprint(objects[n].labels, objects[n].content)
				}
			}
			groups = append(groups, group)
		}
		shown[parent] = strings.Join(groups, ", ")
	}
	return shown
}

// selects matches one rule with one object.
func (m *model) selects(parent string, rule hook.RelatedRule, o testObject, objects map[name]testObject) bool {
	ns, spaceExists := objects[name{"namespaces", "", o.namespace}]
	home := keyFrom(parent).Namespace
	switch {
	case o.plural != rule.Resource,
		len(rule.Names) > 0 && !slices.Contains(rule.Names, o.name.name),
		!matches(rule.LabelSelector, o.labels),
		o.namespace != "" && rule.Namespace != "" && o.namespace != rule.Namespace,
		o.namespace != "" && m.scope.ownNamespaceOnly() && o.namespace != home,
		rule.NamespaceSelector != nil && (!spaceExists || !matches(rule.NamespaceSelector, ns.labels)):
		return false
	}
	return true
}

func matches(selector *metav1.LabelSelector, marks map[string]string) bool {
	if selector == nil {
		return true
	}
	parsed, err := metav1.LabelSelectorAsSelector(selector)
	return err == nil && parsed.Matches(labels.Set(marks))
}

// observe reads the related objects of a parent if no watch is pending.
func (m *model) observe(parent string) {
	if _, known := m.rules[parent]; known && len(m.Pending(keyFrom(parent))) == 0 {
		m.seen[parent] = m.describe(m.Snapshot(keyFrom(parent)).Groups)
	}
}

func (m *model) describe(groups []hook.Group) string {
	lines := make([]string, len(groups))
	for i, g := range groups {
		lines[i] = g.Kind + "." + g.APIVersion + ":"
		for _, e := range g.Objects {
			o := must.Get(object.Parse(e.Object)).In(m.t)
			marks := map[string]string{}
			for label := range o.Labels().All() {
				marks[label.Key] = label.Value
			}
			lines[i] += " " + keyFor(e).String() + "=" + fmt.Sprint(marks, strings.Trim(string(o.Field("content")), `"`))
		}
	}
	return strings.Join(lines, ", ")
}

// converge waits until the reader has seen everything. It returns the parents that were enqueued.
func (m *model) converge(what string) map[string]bool {
	m.t.Helper()
	want := m.expected()
	enqueued := map[string]bool{}
	tick := time.NewTicker(100 * time.Microsecond)
	defer tick.Stop()
	limit := time.After(20 * time.Second)
	for {
		maps.Copy(enqueued, m.takeEnqueued())
		if maps.Equal(m.seen, want) {
			return enqueued
		}
		select {
		case <-tick.C:
		case <-limit:
			m.t.Fatalf("after %s:\nseen %v\nwant %v", what, m.seen, want)
		}
	}
}

// takeEnqueued reads the parents that were enqueued.
func (m *model) takeEnqueued() map[string]bool {
	m.mu.Lock()
	enqueued := m.enqueued
	m.enqueued = map[string]bool{}
	m.mu.Unlock()
	for parent := range enqueued {
		m.observe(parent)
	}
	return enqueued
}

// catchUp waits until every watch has received everything.
func (m *model) catchUp() {
	m.t.Helper()
	m.api.bookmark()
	must.Eventually(m.t, "all watches caught up", func() bool {
		m.Registry.mu.Lock()
		defer m.Registry.mu.Unlock()
		for _, set := range m.ruleSets {
			if !set.synced {
				return false // Its sync enqueues the parents.
			}
		}
		for _, t := range m.watches {
			if t.synced && t.view.Version() < m.api.current() {
				return false
			}
		}
		return true
	})
}
