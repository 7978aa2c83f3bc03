package related

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/hook"
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
	var pending []Watch
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
	i := slices.IndexFunc(d.Watches(), func(w Watch) bool { return w.Err != nil })
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
	if len(d.rules)+len(d.ruleSets)+len(d.kinds)+len(d.watches)+len(d.parents) > 0 {
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
