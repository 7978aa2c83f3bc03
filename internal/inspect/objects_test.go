package inspect

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/must"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/record"
)

func testObject(t testing.TB, namespace, name string, objectState record.ObjectState) ManagedObject {
	t.Helper()
	o := must.Get(object.Parse(fmt.Appendf(nil,
		`{"apiVersion":"example.org/v1","kind":"Rate","metadata":{"name":%q,"namespace":%q,"uid":"u-%[1]s","labels":{"name":%[1]q},"creationTimestamp":"2026-04-01T12:00:%02[3]dZ"}}`, name, namespace, len(name)))).In(t)
	objectState.Object = o
	return ManagedObject{Resource: rates, ObjectState: objectState}
}

func TestStates(t *testing.T) {
	for _, c := range []struct {
		care record.ObjectState
		want State
	}{
		{record.ObjectState{}, StateSynced},
		{record.ObjectState{Queued: true}, StateQueued},
		{record.ObjectState{Standby: true, Failing: true}, StateUnknown},
		{record.ObjectState{Standby: true, Paused: true}, StatePaused},
		{record.ObjectState{Queued: true, Conflict: "x"}, StateConflicting},
		{record.ObjectState{Queued: true, Conflict: "x", Failing: true}, StateFailing},
		{record.ObjectState{Queued: true, Conflict: "x", Failing: true, Paused: true}, StatePaused},
	} {
		if got := StateOf(&c.care); got != c.want {
			t.Errorf("%+v is %s, not %s", c.care, got, c.want)
		}
	}
}

func selector(t *testing.T, text string) (s LabelSelector) {
	t.Helper()
	must.Succeed(t, s.Set(text))
	return s
}

func TestNewPage(t *testing.T) {
	all := func() []ManagedObject {
		return []ManagedObject{
			testObject(t, "b", "wellx", record.ObjectState{Children: 3, LastRun: noon}),
			testObject(t, "a", "well", record.ObjectState{Children: 3, LastRun: noon.Add(time.Minute)}),
			testObject(t, "b", "paused", record.ObjectState{Paused: true, Children: 1}),
			testObject(t, "a", "failing", record.ObjectState{Failing: true, Error: "no Money", Attempts: 3, NextRun: noon}),
			testObject(t, "c", "odd", record.ObjectState{Conflict: "it is written again and again"}),
		}
	}
	if page := NewPage([]ManagedObject{testObject(t, "a", "eur", record.ObjectState{Standby: true})}, Query{State: StateUnknown}); page.Matching != 1 || page.States[StateUnknown] != 1 {
		t.Errorf("of a process that does not work: %+v", page)
	}
	for _, c := range []struct {
		name     string
		q        Query
		want     string
		matching int
	}{
		{"failing first", Query{}, "failing odd paused well wellx", 5},
		{"by name", Query{Sort: "name"}, "failing well paused wellx odd", 5},
		{"turned round", Query{Sort: "name", Reverse: true}, "odd wellx paused well failing", 5},
		{"the latest first", Query{Sort: "created"}, "failing paused wellx well odd", 5},
		{"by the latest run", Query{Sort: "run"}, "well wellx failing paused odd", 5},
		{"by children", Query{Sort: "children"}, "well wellx paused failing odd", 5},
		{"of a namespace", Query{Namespace: "b"}, "paused wellx", 2},
		{"of a state", Query{State: StateFailing}, "failing", 1},
		{"of another kind", Query{Kind: "Pod"}, "", 0},
		{"of another group", Query{Group: "apps", Kind: rates.Kind}, "", 0},
		{"by a part of the name", Query{Text: "well"}, "well wellx", 2},
		{"by a part of the error", Query{Text: "money"}, "failing", 1},
		{"with a label", Query{Labels: selector(t, "name=failing")}, "failing", 1},
		{"without a label", Query{Sort: "name", Labels: selector(t, "name!=failing")}, "well paused wellx odd", 4},
		{"a page", Query{Sort: "name", Offset: 1, Limit: 2}, "well paused", 5},
		{"beyond the end", Query{Offset: 9}, "", 5},
	} {
		t.Run(c.name, func(t *testing.T) {
			page := NewPage(all(), c.q)
			names := lists.Map(page.Objects, func(objectState ObjectState) string { return objectState.Name })
			if got := strings.Join(names, " "); got != c.want || page.Matching != c.matching || page.Total != 5 {
				t.Errorf("got %q of %d of %d, want %q of %d", got, page.Matching, page.Total, c.want, c.matching)
			}
			if fmt.Sprint(page.States) != "map[Conflicting:1 Failing:1 Paused:1 Synced:2]" {
				t.Errorf("states %v", page.States)
			}
		})
	}
	first := NewPage(all(), Query{Limit: 1}).Objects[0]
	if first.Error != "no Money" || first.Attempts != 3 || !first.Next.Equal(noon) || first.UID != "u-failing" || first.Created.IsZero() || first.Plural != "rates" {
		t.Errorf("got %+v", first)
	}
}

// BenchmarkNewPage is a page of ten thousand objects.
func BenchmarkNewPage(b *testing.B) {
	var all []ManagedObject
	for i := range 10_000 {
		all = append(all, testObject(b, fmt.Sprint("n", i%50), fmt.Sprint("name", i), record.ObjectState{Failing: i%100 == 0, Error: "it failed"}))
	}
	for _, sort := range []string{"", "created"} {
		b.Run("by "+sort, func(b *testing.B) {
			for b.Loop() {
				NewPage(all, Query{Sort: sort, Text: "name"})
			}
		})
	}
}

// Objects without a valid request time sort first, and paused objects sort last, with or
// without a request.
func TestSortByReconcileAt(t *testing.T) {
	of := func(name, at string, paused bool) ManagedObject {
		s := testObject(t, "a", name, record.ObjectState{Paused: paused, LastRun: noon})
		called := must.Get(s.Object.With(fmt.Appendf(nil, `{"setpoint.dev/reconcile-at":%q}`, at), "metadata", "annotations")).In(t)
		s.Object = called
		return s
	}
	all := []ManagedObject{
		of("later", "2026-04-01T12:00:00.12Z", false), of("paused", "", true), of("first", "2026-04-01T12:00:00Z", false), of("next", "2026-04-01T14:00:00.1+02:00", false),
		of("words", "now", false), testObject(t, "a", "never", record.ObjectState{}),
	}
	var names []string
	for _, objectState := range NewPage(all, Query{Sort: "reconcileAt"}).Objects {
		names = append(names, objectState.Name)
		if objectState.ReconcileAt.IsZero() != slices.Contains([]string{"never", "words", "paused"}, objectState.Name) {
			t.Errorf("%s was asked for at %s", objectState.Name, objectState.ReconcileAt)
		}
	}
	if got := strings.Join(names, " "); got != "never words first next later paused" {
		t.Error(got)
	}
}

func TestHealth(t *testing.T) {
	for _, c := range []struct{ name, object, want, message string }{
		{"no status", `{"apiVersion":"v1","kind":"ConfigMap"}`, HealthCurrent, ""},
		{"being deleted", `{"apiVersion":"v1","kind":"Pod","metadata":{"deletionTimestamp":"2026-04-01T12:00:00Z"}}`, HealthTerminating, "Resource scheduled for deletion"},
		{"not observed", `{"apiVersion":"x/v1","kind":"X","metadata":{"generation":2},"status":{"observedGeneration":1,"conditions":[{"type":"Ready","status":"True"}]}}`, HealthInProgress, "X generation is 2, but latest observed generation is 1"},
		{"ready", `{"apiVersion":"x/v1","kind":"X","status":{"conditions":[{"type":"Ready","status":"True"}]}}`, HealthCurrent, ""},
		{"not ready", `{"apiVersion":"x/v1","kind":"X","status":{"conditions":[{"type":"Ready","status":"False","message":"soon"}]}}`, HealthInProgress, "soon"},
		{"stalled", `{"apiVersion":"x/v1","kind":"X","status":{"conditions":[{"type":"Ready","status":"True"},{"type":"Stalled","status":"True","message":"broken"}]}}`, HealthFailed, "broken"},
		{"conditions of another type", `{"apiVersion":"x/v1","kind":"X","status":{"conditions":"fine"}}`, HealthUnknown, "kstatus cannot read its status: cannot restore slice from string"},
		{"status of another type", `{"apiVersion":"x/v1","kind":"X","status":"fine"}`, HealthUnknown, "kstatus cannot read its status: cannot restore struct from: string"},
		{"deployment", `{"apiVersion":"apps/v1","kind":"Deployment","spec":{"replicas":2},"status":{"replicas":2,"updatedReplicas":2,"readyReplicas":2,"availableReplicas":2,"conditions":[{"type":"Progressing","status":"True","reason":"NewReplicaSetAvailable"},{"type":"Available","status":"True"}]}}`, HealthCurrent, ""},
		{"deployment rolls", `{"apiVersion":"apps/v1","kind":"Deployment","spec":{"replicas":2},"status":{"replicas":3,"updatedReplicas":2,"availableReplicas":2}}`, HealthInProgress, "Pending termination: 1"},
		{"pod in a loop", `{"apiVersion":"v1","kind":"Pod","status":{"phase":"Running","containerStatuses":[{"name":"c","state":{"waiting":{"reason":"CrashLoopBackOff"}}}]}}`, HealthFailed, "Containers in CrashLoop state: c"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if health, message := HealthOf(parsed(t, c.object)); health != c.want || message != c.message {
				t.Errorf("%s, %q; want %s, %q", health, message, c.want, c.message)
			}
		})
	}
}

// An error is that of one that fails: what does not settle is said as such, and of one
// that is paused neither, nor that it is tried again.
func TestObjectStates(t *testing.T) {
	for state, objectState := range map[State]record.ObjectState{
		StateConflicting: {Conflict: "again and again", NextRun: noon}, StateFailing: {Failing: true, Error: "no", Attempts: 2, NextRun: noon},
		StatePaused:  {Paused: true, Failing: true, Error: "no", Attempts: 2, Conflict: "again and again", NextRun: noon},
		StateUnknown: {Standby: true, Failing: true, Error: "no", Attempts: 2, NextRun: noon},
	} {
		one := testObject(t, "a", "eur", objectState)
		words := one.View()
		failing := state == StateFailing
		if words.State != state || (words.Error != "") != failing || (words.Attempts > 0) != failing ||
			(words.Conflict != "") != (state == StateConflicting) || words.Next.IsZero() != (state == StatePaused || state == StateUnknown) {
			t.Errorf("%s: %+v", state, words)
		}
	}
}

// A process says what it cannot tell, and who can.
func TestCaveat(t *testing.T) {
	for _, c := range []struct {
		process Process
		want    string
	}{
		{Process{Name: "p", IsLeader: true}, ""},
		{Process{Name: "p", LeaderElection: true, IsLeader: true}, ""},
		{Process{Name: "p", LeaderElection: true, Leader: "p-1"}, "The process p is a standby; p-1 is the leader and has the history."},
		{Process{Name: "p", LeaderElection: true}, "The process p is a standby; the leader has the history."},
		{Process{Name: "p", IsLeader: true, History: HistoryStats{Off: true}}, "The process p keeps no history (--history-size)."},
	} {
		if got := c.process.Caveat(); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
	reviews, standing := &Controller{AllReplicas: true}, Process{Name: "p", LeaderElection: true}
	if got := standing.CaveatFor(reviews); got != "" || standing.CaveatFor(&Controller{}) == "" {
		t.Errorf("of reviews, which each replica answers: %q", got)
	}
	standing.History.Off = true
	if got := standing.CaveatFor(reviews); !strings.Contains(got, "keeps no history") {
		t.Errorf("of reviews without a history: %q", got)
	}
}
