package related

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/cache"
	"github.com/setpoint-dev/setpoint/internal/must"
	"github.com/setpoint-dev/setpoint/internal/object"
)

func TestParentsAreEnqueued(t *testing.T) {
	d := newFixture(t, v2Cluster)
	d.api.put(configMap("a/one", "1", "app=x"))
	d.set("named", of(configMaps, in("a"), named("one")))
	d.set("labelled", of(configMaps, labelled("app=x")))
	d.set("spaced", of(configMaps, in("a")))
	d.set("stranger", of(configMaps, in("b")))
	d.set("twice", of(configMaps, in("a"), named("one", "2", "3", "4", "5")), of(configMaps, in("a")))
	d.expectEnqueued("labelled: listed", "named: listed", "spaced: listed", "stranger: listed", "twice: listed")
	d.expect("twice", "ConfigMap.v1: a/one=1")

	steps := []struct {
		what   string
		change func()
		want   []string
	}{
		{"changed", func() { d.api.put(configMap("a/one", "2", "app=x")) }, []string{"named", "labelled", "spaced", "twice"}},
		{"matches no more", func() { d.api.put(configMap("a/one", "2")) }, []string{"named", "labelled", "spaced", "twice"}},
		{"of less concern", func() { d.api.put(configMap("a/one", "3")) }, []string{"named", "spaced", "twice"}},
		{"matches again", func() { d.api.put(configMap("a/one", "3", "app=x")) }, []string{"named", "labelled", "spaced", "twice"}},
		{"appears", func() { d.api.put(configMap("a/two", "1")) }, []string{"spaced", "twice"}},
		{"goes", func() { d.api.delete(name{"configmaps", "a", "two"}) }, []string{"spaced", "twice"}},
	}
	for _, step := range steps {
		object := "a/one"
		if step.what == "appears" || step.what == "goes" {
			object = "a/two"
		}
		step.change()
		for i := range step.want {
			step.want[i] += ": ConfigMap " + object
		}
		d.expectEnqueued(step.want...)
	}
	d.expect("named", "ConfigMap.v1: a/one=3")
	d.expect("stranger", "ConfigMap.v1:")
}

func TestNewVersionWithoutAChangeEnqueuesNothing(t *testing.T) {
	d := newFixture(t, v2Cluster)
	d.api.put(configMap("a/one", "1"))
	d.set("p", of(configMaps))
	d.expectEnqueued("p: listed")
	before := d.Snapshot(keyFrom("p"))
	d.api.put(configMap("a/one", "1"))
	must.Eventually(t, "the new version", func() bool {
		return string(d.Snapshot(keyFrom("p")).Groups[0].Objects[0].Object) != string(before.Groups[0].Objects[0].Object)
	})
	if got := d.Snapshot(keyFrom("p")).Digest; got != before.Digest {
		t.Error("the digest changed")
	}
	d.api.put(configMap("a/one", "2"))
	d.expectEnqueued("p: ConfigMap a/one")
	if got := d.Snapshot(keyFrom("p")).Digest; got == before.Digest {
		t.Error("the digest did not change")
	}
}

func TestSnapshotIsSortedAndComplete(t *testing.T) {
	d := newFixture(t, v2Cluster)
	for _, key := range []string{"team/b", "team/a", "team-1/a", "team0/a"} {
		d.api.put(configMap(key, "", "app=x"))
	}
	d.api.put(widget("w", ""))
	d.set("p", of(widgets), of(configMaps), of(secrets), of(configMaps, labelled("app=x")))
	d.waitSynced("p")
	d.expect("p", "ConfigMap.v1: team-1/a= team/a= team/b= team0/a=, Secret.v1:, Widget.example.com/v1: w=")

	d.set("p")
	if got := d.Snapshot(keyFrom("p")); len(got.Groups) != 0 || got.Digest != 0 {
		t.Errorf("without rules there is %v", got)
	}
	if got := d.Snapshot(keyFrom("unknown")); len(got.Groups) != 0 || got.Digest != 0 {
		t.Errorf("for an unknown parent there is %v", got)
	}
}

func TestSnapshotIsEmptyUntilSynced(t *testing.T) {
	d := newFixture(t, v2Cluster)
	d.api.slow = func(path string) bool { return strings.HasPrefix(path, "widgets") }
	d.api.put(configMap("a/one", "1"))
	d.set("p", of(configMaps), of(widgets))
	d.set("q", of(configMaps))
	d.waitSynced("q")
	d.expectOpen("configmaps", "widgets")
	d.takeEnqueued()
	pending := d.Pending(keyFrom("p"))
	if len(pending) != 1 || pending[0].Selection.Resource != widgets || pending[0].Err != nil {
		t.Fatalf("lacking %v", pending)
	}
	d.api.put(configMap("a/one", "2"))
	d.expectEnqueued("q: ConfigMap a/one")
	d.api.release()
	d.expectEnqueued("p: listed")
	d.expect("p", "ConfigMap.v1: a/one=2, Widget.example.com/v1:")
}

func TestFailingWatchIsReported(t *testing.T) {
	d := newFixture(t, v2Cluster)
	d.api.with(func() { d.api.refuse = func(path string) bool { return strings.HasPrefix(path, "secrets") } })
	d.set("p", of(secrets, in("a"), named("s")), of(configMaps))
	var pending []cache.Stat
	must.Eventually(t, "an error", func() bool {
		pending = d.Pending(keyFrom("p"))
		return len(pending) == 1 && pending[0].Err != nil
	})
	if got := pending[0].Err.Error(); !strings.Contains(got, "watch secrets.v1 in a named s: not for you") {
		t.Fatalf("error %s", got)
	}
	d.fireTimers()
	d.expectEnqueued("p: listed")
	d.fireTimers()
	if enqueued := d.takeEnqueued(); len(enqueued) > 0 {
		t.Fatalf("enqueued again: %v", enqueued)
	}
	i := slices.IndexFunc(d.Watches(), func(w cache.Stat) bool { return w.Err != nil })
	if i < 0 || d.Watches()[i].Selection != pending[0].Selection {
		t.Fatalf("watches %v", d.Watches())
	}
	d.api.with(func() { d.api.refuse = nil })
	d.expectEnqueued("p: listed")
}

func TestNamespaceLabelsDecide(t *testing.T) {
	d := newFixture(t, v2Cluster)
	d.api.put(namespace("a", "team=blue"))
	d.api.put(namespace("b", "team=red"))
	d.api.put(configMap("a/one", ""))
	d.api.put(configMap("b/one", ""))
	d.api.put(configMap("b/two", ""))
	d.set("p", of(configMaps, near("team=blue")))
	d.set("q", of(configMaps, in("b")))
	d.expectEnqueued("p: listed", "q: listed")
	d.expect("p", "ConfigMap.v1: a/one=")

	d.api.put(namespace("b", "team=blue"))
	d.expectEnqueued("p: Namespace b")
	d.expect("p", "ConfigMap.v1: a/one= b/one= b/two=")

	d.api.put(namespace("a", "team=blue", "other=label"))
	d.api.delete(name{"configmaps", "b", "one"})
	d.expectEnqueued("p: ConfigMap b/one", "q: ConfigMap b/one")

	d.api.put(namespace("a"))
	d.expectEnqueued("p: Namespace a")
	d.expect("p", "ConfigMap.v1: b/two=")

	d.api.put(configMap("c/one", ""))
	must.Eventually(t, "the object of a namespace not yet known", func() bool { return d.Watches()[0].Objects == 3 })
	d.api.put(namespace("c", "team=blue"))
	d.expectEnqueued("p: Namespace c")

	d.api.delete(name{"namespaces", "", "c"})
	d.expectEnqueued("p: Namespace c")
	d.expectOpen("configmaps", "configmaps in b", "metadata of namespaces")

	d.set("p", of(configMaps, in("b")))
	d.fireTimers()
	d.expectOpen("configmaps in b")
}

func TestEqualRulesAreOne(t *testing.T) {
	d := newFixture(t, v2Cluster)
	d.api.put(configMap("a/one", "1"))
	d.set("p0", of(configMaps, in("a"), named("one", "two")))
	d.waitSynced("p0")
	for i := range 100 {
		d.set(fmt.Sprint("p", i), of(configMaps, in("a"), named("two", "one", "one")))
	}
	if len(d.rules) != 1 || len(d.ruleSets) != 1 || len(d.Watches()) != 2 {
		t.Fatalf("%d rules, %d rule sets, %d watches", len(d.rules), len(d.ruleSets), len(d.Watches()))
	}
	first, other := d.Snapshot(keyFrom("p0")), d.Snapshot(keyFrom("p99"))
	if &first.Groups[0] != &other.Groups[0] {
		t.Error("what is shown was put together twice")
	}
	d.takeEnqueued()
	d.api.put(configMap("a/one", "2"))
	must.Eventually(t, "wakes of all", func() bool { d.mu.Lock(); defer d.mu.Unlock(); return len(d.enqueued) == 100 })
}

func TestWatchesEndWithTheirRules(t *testing.T) {
	d := newFixture(t, v2Cluster)
	d.set("p", of(configMaps, in("a"), named("one")), of(widgets, labelled("app=x")))
	d.set("q", of(configMaps, in("a"), named("one")))
	d.expectOpen("configmaps in a named one", "widgets with app=x")
	d.waitSynced("q")
	d.Drop(keyFrom("p"))
	d.Drop(keyFrom("unknown"))
	if got := len(d.Watches()); got != 2 {
		t.Fatalf("%d watches, want 2 until time passes", got)
	}
	d.fireTimers()
	d.expectOpen("configmaps in a named one")

	// A watch that is needed again in time stays open.
	d.Drop(keyFrom("q"))
	opened := len(d.api.opened)
	d.set("r", of(configMaps, in("a"), named("one")))
	if pending := d.Pending(keyFrom("r")); pending != nil {
		t.Fatalf("lacking %v", pending)
	}
	d.fireTimers()
	if len(d.api.opened) != opened {
		t.Fatalf("opened %v", d.api.opened[opened:])
	}
	d.Drop(keyFrom("r"))
	d.fireTimers()
	d.expectOpen()
	if len(d.rules)+len(d.ruleSets)+len(d.watches)+len(d.parents) > 0 {
		t.Error("something is remembered of parents that are gone")
	}
}

// watchesFor fires timers until there are n watches.
func (d *fixture) watchesFor(n int) {
	d.t.Helper()
	must.Eventually(d.t, fmt.Sprintf("%d watches", n), func() bool {
		d.api.bookmark()
		d.fireTimers()
		return len(d.Watches()) == n
	})
}

// spread sets one rule for each of several parents.
func (d *fixture) spread(n int) {
	d.t.Helper()
	for i := range n {
		d.set(fmt.Sprint("p", i), of(configMaps, in(fmt.Sprint("n", i)), named("one")))
	}
}

func TestManyRulesShareAWatch(t *testing.T) {
	d := newFixture(t, v2Cluster)
	for i := range 20 {
		d.api.put(configMap(fmt.Sprintf("n%d/one", i), "1"))
	}
	d.spread(maxNarrowWatches)
	for i := range maxNarrowWatches {
		d.waitSynced(fmt.Sprint("p", i))
	}
	if d.api.everOpened("configmaps") {
		t.Fatal("a wide watch was opened for few rules")
	}
	d.takeEnqueued()
	d.set("more", of(configMaps, in("n0")))
	d.set("again", of(configMaps, in("n9"), named("one")))
	d.expectEnqueued("more: listed", "again: listed")
	d.watchesFor(maxNarrowWatches + 1)
	d.api.put(configMap("n3/one", "2"))
	d.expectEnqueued("p3: ConfigMap n3/one")
	d.expect("p3", "ConfigMap.v1: n3/one=2")
	d.api.put(configMap("n9/one", "2"))
	d.expectEnqueued("again: ConfigMap n9/one")
	d.expect("again", "ConfigMap.v1: n9/one=2")

	// The wide watch ends with its rules. Then there may be narrow ones again.
	d.Drop(keyFrom("more"))
	d.Drop(keyFrom("again"))
	d.Drop(keyFrom("p0"))
	d.watchesFor(maxNarrowWatches - 1)
	d.set("again", of(configMaps, in("n9"), named("one")))
	d.watchesFor(maxNarrowWatches)
	must.Eventually(t, "the end of the wide watch", func() bool { return !d.api.open()["configmaps"] })
}

func TestSecretsAreReadByNameOnly(t *testing.T) {
	d := newFixture(t, v2Cluster)
	var want []string
	for i := range 2 * maxNarrowWatches {
		d.set(fmt.Sprint("p", i), of(secrets, in("a"), named(fmt.Sprint("s", i), "shared")))
		want = append(want, fmt.Sprint("secrets in a named s", i))
	}
	many := make([]string, 2*maxNameWatches)
	for i := range many {
		many[i] = fmt.Sprint("many", i)
		want = append(want, "secrets in a named "+many[i])
	}
	d.set("many", of(secrets, in("a"), named(many...)))
	d.expectOpen(append(want, "secrets in a named shared")...)
	for _, path := range d.api.opened {
		if !strings.Contains(path, " named ") {
			t.Errorf("opened %s", path)
		}
	}
}

func TestUnservedKindRecovers(t *testing.T) {
	served := false
	d := newFixture(t, v2Cluster)
	known := d.options.Resolve
	d.options.Resolve = func(ctx context.Context, apiVersion, plural string) (object.Resource, error) {
		if plural == "widgets" && !served {
			return object.Resource{}, errNotServed
		}
		return known(ctx, apiVersion, plural)
	}
	rules := []hook.RelatedRule{of(widgets)}
	if err := d.Set(t.Context(), keyFrom("p"), rules); !errors.Is(err, errNotServed) {
		t.Fatalf("error %v", err)
	}
	served = true
	must.Succeed(t, d.Set(t.Context(), keyFrom("p"), rules))
	d.expectEnqueued("p: listed")

	// A kind with a watch is not resolved again.
	served = false
	d.set("q", rules...)
}

func TestNothingIsEnqueuedAfterClose(t *testing.T) {
	d := newFixture(t, v2Cluster)
	d.set("p", of(configMaps))
	d.waitSynced("p")
	d.Close()
	d.takeEnqueued()
	d.api.put(configMap("a/one", "1"))
	d.set("q", of(widgets))
	d.Drop(keyFrom("p"))
	d.fireTimers()
	d.Close()
	d.expectOpen()
	if enqueued := d.takeEnqueued(); len(enqueued) > 0 {
		t.Errorf("woke %v", enqueued)
	}
}

// The four scopes, and one that is limited to namespaces.
var (
	limited      = Scope{Version: hook.V2, Namespaced: true, Namespaces: []string{"home", "away"}}
	v1Namespaced = Scope{Version: hook.V1, Namespaced: true}
	v1Cluster    = Scope{Version: hook.V1}
	v2Namespaced = Scope{Version: hook.V2, Namespaced: true}
	v2Cluster    = Scope{Version: hook.V2}
)

func TestInvalidRules(t *testing.T) {
	broken := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Near"}}}
	for what, test := range map[string]struct {
		scope Scope
		rule  hook.RelatedRule
		want  string
	}{
		"no version":            {v2Cluster, hook.RelatedRule{Resource: "pods"}, "apiVersion: required"},
		"no resource":           {v2Cluster, hook.RelatedRule{APIVersion: "v1"}, "resource: required"},
		"names and labels":      {v2Cluster, of(configMaps, named("a"), labelled("a=1")), "names: cannot be combined with labelSelector"},
		"names and spaces":      {v2Cluster, of(configMaps, named("a"), near("a=1")), "names: cannot be combined with namespaceSelector"},
		"namespace and spaces":  {v2Cluster, of(configMaps, in("a"), near("a=1")), "namespace: cannot be combined with namespaceSelector"},
		"operator":              {v2Cluster, of(configMaps, func(r *hook.RelatedRule) { r.LabelSelector = broken }), `labelSelector: "Near" is not`},
		"namespace operator":    {v2Cluster, of(configMaps, func(r *hook.RelatedRule) { r.NamespaceSelector = broken }), `namespaceSelector: "Near" is not`},
		"label":                 {v2Cluster, of(configMaps, labelled("a=b c")), "labelSelector: "},
		"spaces of no spaces":   {v2Cluster, of(widgets, near("a=1")), "namespaceSelector: widgets are cluster-scoped"},
		"v1: another namespace": {v1Namespaced, of(configMaps, in("other")), `namespace: "other" is not the namespace of the parent, "home"`},
		"v1: spaces":            {v1Namespaced, of(configMaps, near("a=1")), "namespaceSelector: a customize hook of version v1"},
		"beyond the limits":     {limited, of(configMaps, in("other")), `namespace: "other" is not one of the namespaces that Setpoint is limited to, home, away`},
		"kind":                  {v2Cluster, hook.RelatedRule{APIVersion: "v1", Resource: "nets"}, "resource: find nets: nets of v1: not served"},
	} {
		t.Run(what, func(t *testing.T) {
			d := newFixture(t, test.scope)
			err := d.Set(t.Context(), keyFrom("home/parent"), []hook.RelatedRule{of(configMaps), test.rule})
			var fault *RuleError
			if !errors.As(err, &fault) || !strings.HasPrefix(err.Error(), "relatedResources[1]."+test.want) {
				t.Fatalf("got %v, want relatedResources[1].%s", err, test.want)
			}
			if errors.Is(err, errNotServed) != (what == "kind") {
				t.Fatalf("got %v", err)
			}
			if open := d.Watches(); len(open) > 0 {
				t.Fatalf("an invalid rule opened %v", open)
			}
		})
	}
}

// A hook cannot open any number of watches.
func TestLimitsOfRules(t *testing.T) {
	names := make([]string, maxNames/2+1)
	for i := range names {
		names[i] = "n" + strconv.Itoa(i)
	}
	half, secrets := names[1:], object.Secrets
	for what, test := range map[string]struct {
		rules []hook.RelatedRule
		want  string
	}{
		"as many names as allowed": {[]hook.RelatedRule{of(secrets, named(half...)), of(secrets, in("a"), named(half...))}, ""},
		"one name more": {[]hook.RelatedRule{of(secrets, named(half...)), of(secrets, in("a"), named(names...))},
			"relatedResources[1].names: the rules up to this one have 1001 names; at most 1000 are allowed: select the objects by labelSelector"},
		"as many rules as allowed": {make([]hook.RelatedRule, maxRules), ""},
		"one rule more": {make([]hook.RelatedRule, maxRules+1),
			"relatedResources: has 1001 rules; at most 1000 are allowed: select more objects with each rule, by labelSelector"},
	} {
		got := ""
		if err := checkLimits(test.rules); err != nil {
			got = err.Error()
		}
		if got != test.want {
			t.Errorf("%s: %q, want %q", what, got, test.want)
		}
	}
}

func TestInvalidRulesKeepTheFormerOnes(t *testing.T) {
	d := newFixture(t, v1Namespaced)
	d.api.put(configMap("home/a", "1"))
	d.set("home/parent", of(configMaps, named("a")))
	d.expectEnqueued("home/parent: listed")
	if err := d.Set(t.Context(), keyFrom("home/parent"), []hook.RelatedRule{of(configMaps, in("other"))}); err == nil {
		t.Fatal("no error")
	}
	d.api.put(configMap("home/a", "2"))
	d.expectEnqueued("home/parent: ConfigMap home/a")
	d.expect("home/parent", "ConfigMap.v1: home/a=2")
}

// The cases list what each form of rule selects.
func TestRulesSelect(t *testing.T) {
	kinds := map[string]object.Resource{"configmaps": configMaps, "widgets": widgets}
	for what, test := range map[string]struct {
		scope  Scope
		parent string
		kind   string
		form   []func(*hook.RelatedRule)
		want   string
	}{
		"all":                                  {v2Cluster, "p", "configmaps", nil, "away/a away/b home/a home/b"},
		"all, empty selector":                  {v2Cluster, "p", "configmaps", form(labelled()), "away/a away/b home/a home/b"},
		"labels":                               {v2Cluster, "p", "configmaps", form(labelled("app=x")), "away/a home/a"},
		"a namespace":                          {v2Cluster, "p", "configmaps", form(in("home")), "home/a home/b"},
		"a namespace, labels":                  {v2Cluster, "p", "configmaps", form(in("home"), labelled("app=x")), "home/a"},
		"names":                                {v2Cluster, "p", "configmaps", form(named("b", "none", "b")), "away/b home/b"},
		"many names":                           {v2Cluster, "p", "configmaps", form(named("a", "c", "d", "e", "f")), "away/a home/a"},
		"a namespace, names":                   {v2Cluster, "p", "configmaps", form(in("away"), named("b")), "away/b"},
		"no name, as a hook may make it":       {v2Cluster, "p", "configmaps", form(named("")), ""},
		"a name and none":                      {v2Cluster, "p", "configmaps", form(named("", "a")), "away/a home/a"},
		"no names":                             {v2Cluster, "p", "configmaps", form(named()), "away/a away/b home/a home/b"},
		"namespaces":                           {v2Cluster, "p", "configmaps", form(near("team=blue")), "away/a away/b"},
		"namespaces, labels":                   {v2Cluster, "p", "configmaps", form(near("team=blue"), labelled("app=x")), "away/a"},
		"all namespaces":                       {v2Cluster, "p", "configmaps", form(near(), labelled("app=x")), "away/a home/a"},
		"cluster-scoped":                       {v2Cluster, "p", "widgets", nil, "a b"},
		"cluster-scoped, labels":               {v2Cluster, "p", "widgets", form(labelled("app=x")), "a"},
		"cluster-scoped, names":                {v2Cluster, "p", "widgets", form(named("b")), "b"},
		"cluster-scoped, a namespace":          {v2Cluster, "p", "widgets", form(in("home"), named("b")), "b"},
		"limited":                              {limited, "home/p", "configmaps", nil, "away/a away/b home/a home/b"},
		"limited, a namespace":                 {limited, "home/p", "configmaps", form(in("away"), named("b")), "away/b"},
		"limited, namespaces":                  {limited, "home/p", "configmaps", form(near("team=blue")), "away/a away/b"},
		"limited, cluster-scoped":              {limited, "home/p", "widgets", form(labelled("app=x")), "a"},
		"v1, cluster-scoped parent":            {v1Cluster, "p", "configmaps", form(near("team=blue")), "away/a away/b"},
		"v1, cluster-scoped parent, namespace": {v1Cluster, "p", "configmaps", form(in("away"), named("b")), "away/b"},
		"v2, namespaced parent":                {v2Namespaced, "home/p", "configmaps", form(labelled("app=x")), "away/a home/a"},
		"v2, namespaced parent, namespaces":    {v2Namespaced, "home/p", "configmaps", form(near("team=blue")), "away/a away/b"},
		"v1, namespaced parent":                {v1Namespaced, "home/p", "configmaps", nil, "home/a home/b"},
		"v1, namespaced parent, labels":        {v1Namespaced, "home/p", "configmaps", form(labelled("app=x")), "home/a"},
		"v1, namespaced parent, names":         {v1Namespaced, "home/p", "configmaps", form(named("b")), "home/b"},
		"v1, namespaced parent, its namespace": {v1Namespaced, "home/p", "configmaps", form(in("home"), named("b")), "home/b"},
		"v1, namespaced parent, of no spaces":  {v1Namespaced, "home/p", "widgets", form(labelled("app=x")), "a"},
		"v1, namespaced parent, of no spaces, another namespace": {v1Namespaced, "home/p", "widgets", form(in("away"), named("a")), "a"},
	} {
		t.Run(what, func(t *testing.T) {
			d := newFixture(t, test.scope)
			d.api.put(namespace("home", "team=red"))
			d.api.put(namespace("away", "team=blue"))
			for _, ns := range []string{"home/", "away/"} {
				d.api.put(configMap(ns+"a", "", "app=x"))
				d.api.put(configMap(ns+"b", "", "app=y"))
			}
			if test.scope.Namespaces != nil {
				d.api.put(configMap("far/a", "", "app=x"))
			}
			d.api.put(widget("a", "", "app=x"))
			d.api.put(widget("b", "", "app=y"))
			kind := kinds[test.kind]
			d.set(test.parent, of(kind, test.form...))
			d.waitSynced(test.parent)
			want := kind.Kind + "." + kind.APIVersion() + ":"
			for each := range strings.FieldsSeq(test.want) {
				want += " " + each + "="
			}
			d.expect(test.parent, want)
		})
	}
}

func form(parts ...func(*hook.RelatedRule)) []func(*hook.RelatedRule) { return parts }

// If a limited controller has many rules for a kind, they share one watch for each namespace, not
// one for all.
func TestLimitedRulesWatchNoMore(t *testing.T) {
	d := newFixture(t, limited)
	var rules []hook.RelatedRule
	for i := range 2 * maxNarrowWatches {
		rules = append(rules, of(configMaps, labelled("n="+strconv.Itoa(i))))
	}
	d.set("home/parent", rules...)
	d.waitSynced("home/parent")
	for _, w := range d.Watches() {
		if w.Selection.Namespace == "" {
			t.Errorf("watches %s", w.Selection)
		}
	}
}

// What rules read is known before a watch opens, so that forbidden rules open none.
func TestReadsOf(t *testing.T) {
	for name, c := range map[string]struct {
		rule hook.RelatedRule
		want string
	}{
		"names in a namespace":      {of(secrets, in("vault"), named("db", "ca")), `secrets.v1 "vault" [ca db]; `},
		"names anywhere":            {of(secrets, named("db")), `secrets.v1 "" []; `},
		"all of a namespace":        {of(secrets, in("vault")), `secrets.v1 "vault" []; `},
		"all":                       {of(secrets), `secrets.v1 "" []; `},
		"in namespaces by labels":   {of(configMaps, near("team=a")), `namespaces.v1 "" []; configmaps.v1 "" []; `},
		"cluster-scoped names":      {of(namespaces, named("a")), `namespaces.v1 "" [a]; `},
		"by labels, in a namespace": {of(configMaps, in("a"), labelled("app=x")), `configmaps.v1 "a" []; `},
	} {
		t.Run(name, func(t *testing.T) {
			d := newFixture(t, v2Cluster)
			describe := func(reads []Read) (text string) {
				for _, r := range reads {
					text += fmt.Sprintf("%s %q %v; ", r.Resource, r.Namespace, r.Names)
				}
				return text
			}
			reads, err := d.ReadsOf(t.Context(), keyFrom("p"), []hook.RelatedRule{c.rule})
			if got := describe(reads); err != nil || got != c.want {
				t.Errorf("got %s, %v; want %s", got, err, c.want)
			}
			if open := d.Watches(); len(open) > 0 {
				t.Errorf("opened %v", open)
			}
			d.set("p", c.rule)
			if got := describe(d.Reads(keyFrom("p"))); got != c.want {
				t.Errorf("once set: got %s, want %s", got, c.want)
			}
		})
	}
}

// TestSelect selects among given objects, in any order, without a watch.
func TestSelect(t *testing.T) {
	var all []*object.Object
	for _, o := range []testObject{
		configMap("a/one", "", "app=web"), configMap("b/one", "", "app=web"), configMap("b/two", ""),
		namespace("a"), namespace("b", "tier=front"), widget("a/one", "", "app=web"),
	} {
		all = append(all, must.Get(object.Parse([]byte(o.json(1, false)))).In(t))
	}
	for name, c := range map[string]struct {
		rule hook.RelatedRule
		want string
	}{
		"by name, in any namespace": {of(configMaps, named("one")), "a/one b/one"},
		"in one namespace":          {of(configMaps, in("b")), "b/one b/two"},
		"by labels":                 {of(configMaps, labelled("app=web")), "a/one b/one"},
		"by labels of namespaces":   {of(configMaps, near("tier=front")), "b/one b/two"},
		"in no namespace":           {of(configMaps, near("tier=back")), ""},
	} {
		registry := New(Options{Resolve: resolve, Scope: v2Namespaced})
		selected := must.Get(registry.Select(t.Context(), keyFrom("a/parent"), []hook.RelatedRule{c.rule}, all)).In(t)
		var got []string
		for _, o := range selected {
			got = append(got, o.Namespace()+"/"+o.Name())
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s: %v, want %s", name, got, c.want)
		}
	}
}
