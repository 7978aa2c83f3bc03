package inspect

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/trace"
)

func subject(t testing.TB, namespace, name string, care trace.Care) Subject {
	t.Helper()
	o, err := object.Parse(fmt.Appendf(nil,
		`{"apiVersion":"example.org/v1","kind":"Rate","metadata":{"name":%q,"namespace":%q,"uid":"u-%s","creationTimestamp":"2026-04-01T12:00:%02dZ"}}`, name, namespace, name, len(name)))
	if err != nil {
		t.Fatal(err)
	}
	care.Object = o
	return Subject{Resource: rates, Care: care}
}

func TestStates(t *testing.T) {
	for _, c := range []struct {
		care trace.Care
		want State
	}{
		{trace.Care{}, Well},
		{trace.Care{Waiting: true}, Waiting},
		{trace.Care{Idle: true, Failing: true}, NotKnown},
		{trace.Care{Idle: true, Paused: true}, Paused},
		{trace.Care{Waiting: true, Unrest: "x"}, Unsettled},
		{trace.Care{Waiting: true, Unrest: "x", Failing: true}, Failing},
		{trace.Care{Waiting: true, Unrest: "x", Failing: true, Paused: true}, Paused},
	} {
		if got := StateOf(&c.care); got != c.want {
			t.Errorf("%+v is %s, not %s", c.care, got, c.want)
		}
	}
}

func TestPageOf(t *testing.T) {
	all := func() []Subject {
		return []Subject{
			subject(t, "b", "wellx", trace.Care{Children: 3, Ran: noon}),
			subject(t, "a", "well", trace.Care{Children: 3, Ran: noon.Add(time.Minute)}),
			subject(t, "b", "paused", trace.Care{Paused: true, Children: 1}),
			subject(t, "a", "failing", trace.Care{Failing: true, Error: "no Money", Attempts: 3, Next: noon}),
			subject(t, "c", "odd", trace.Care{Unrest: "it is written again and again"}),
		}
	}
	if page := PageOf([]Subject{subject(t, "a", "eur", trace.Care{Idle: true})}, Query{State: NotKnown}); page.Matching != 1 || page.States[NotKnown] != 1 {
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
		{"of a state", Query{State: Failing}, "failing", 1},
		{"of another kind", Query{Kind: "Pod"}, "", 0},
		{"of another group", Query{Group: "apps", Kind: rates.Kind}, "", 0},
		{"by a part of the name", Query{Text: "well"}, "well wellx", 2},
		{"by a part of the error", Query{Text: "money"}, "failing", 1},
		{"a page", Query{Sort: "name", Offset: 1, Limit: 2}, "well paused", 5},
		{"beyond the end", Query{Offset: 9}, "", 5},
	} {
		t.Run(c.name, func(t *testing.T) {
			page := PageOf(all(), c.q)
			var names []string
			for _, care := range page.Objects {
				names = append(names, care.Name)
			}
			if got := strings.Join(names, " "); got != c.want || page.Matching != c.matching || page.Total != 5 {
				t.Errorf("got %q of %d of %d, want %q of %d", got, page.Matching, page.Total, c.want, c.matching)
			}
			if fmt.Sprint(page.States) != "map[Failing:1 Paused:1 Unsettled:1 Well:2]" {
				t.Errorf("states %v", page.States)
			}
		})
	}
	first := PageOf(all(), Query{Limit: 1}).Objects[0]
	if first.Error != "no Money" || first.Attempts != 3 || !first.Next.Equal(noon) || first.UID != "u-failing" || first.Created.IsZero() || first.Plural != "rates" {
		t.Errorf("got %+v", first)
	}
}

// BenchmarkPageOf is a page of ten thousand objects.
func BenchmarkPageOf(b *testing.B) {
	var all []Subject
	for i := range 10_000 {
		all = append(all, subject(b, fmt.Sprint("n", i%50), fmt.Sprint("name", i), trace.Care{Failing: i%100 == 0, Error: "it failed"}))
	}
	for _, sort := range []string{"", "created"} {
		b.Run("by "+sort, func(b *testing.B) {
			for b.Loop() {
				PageOf(all, Query{Sort: sort, Text: "name"})
			}
		})
	}
}

// Those are asked for first for which nobody asked, in words that are no time neither, and
// those last that are left alone, whatever they were asked for.
func TestLongestNotAskedFor(t *testing.T) {
	of := func(name, at string, paused bool) Subject {
		s := subject(t, "a", name, trace.Care{Paused: paused, Ran: noon})
		asked, err := s.Object.With(fmt.Appendf(nil, `{"setpoint.dev/reconcile-at":%q}`, at), "metadata", "annotations")
		if err != nil {
			t.Fatal(err)
		}
		s.Object = asked
		return s
	}
	all := []Subject{
		of("later", "2026-04-01T12:00:00.12Z", false), of("paused", "", true), of("first", "2026-04-01T12:00:00Z", false), of("next", "2026-04-01T14:00:00.1+02:00", false),
		of("words", "now", false), subject(t, "a", "never", trace.Care{}),
	}
	var names []string
	for _, care := range PageOf(all, Query{Sort: "asked"}).Objects {
		names = append(names, care.Name)
		if care.Asked.IsZero() != slices.Contains([]string{"never", "words", "paused"}, care.Name) {
			t.Errorf("%s was asked for at %s", care.Name, care.Asked)
		}
	}
	if got := strings.Join(names, " "); got != "never words first next later paused" {
		t.Error(got)
	}
}

func TestHealth(t *testing.T) {
	for _, c := range []struct{ name, object, want, message string }{
		{"no status", `{"apiVersion":"v1","kind":"ConfigMap"}`, Current, ""},
		{"being deleted", `{"apiVersion":"v1","kind":"Pod","metadata":{"deletionTimestamp":"2026-04-01T12:00:00Z"}}`, Terminating, "Resource scheduled for deletion"},
		{"not observed", `{"apiVersion":"x/v1","kind":"X","metadata":{"generation":2},"status":{"observedGeneration":1,"conditions":[{"type":"Ready","status":"True"}]}}`, InProgress, "X generation is 2, but latest observed generation is 1"},
		{"ready", `{"apiVersion":"x/v1","kind":"X","status":{"conditions":[{"type":"Ready","status":"True"}]}}`, Current, ""},
		{"not ready", `{"apiVersion":"x/v1","kind":"X","status":{"conditions":[{"type":"Ready","status":"False","message":"soon"}]}}`, InProgress, "soon"},
		{"stalled", `{"apiVersion":"x/v1","kind":"X","status":{"conditions":[{"type":"Ready","status":"True"},{"type":"Stalled","status":"True","message":"broken"}]}}`, FailedState, "broken"},
		{"conditions of another type", `{"apiVersion":"x/v1","kind":"X","status":{"conditions":"fine"}}`, Unknown, "kstatus cannot read its status: cannot restore slice from string"},
		{"status of another type", `{"apiVersion":"x/v1","kind":"X","status":"fine"}`, Unknown, "kstatus cannot read its status: cannot restore struct from: string"},
		{"deployment", `{"apiVersion":"apps/v1","kind":"Deployment","spec":{"replicas":2},"status":{"replicas":2,"updatedReplicas":2,"readyReplicas":2,"availableReplicas":2,"conditions":[{"type":"Progressing","status":"True","reason":"NewReplicaSetAvailable"},{"type":"Available","status":"True"}]}}`, Current, ""},
		{"deployment rolls", `{"apiVersion":"apps/v1","kind":"Deployment","spec":{"replicas":2},"status":{"replicas":3,"updatedReplicas":2,"availableReplicas":2}}`, InProgress, "Pending termination: 1"},
		{"pod in a loop", `{"apiVersion":"v1","kind":"Pod","status":{"phase":"Running","containerStatuses":[{"name":"c","state":{"waiting":{"reason":"CrashLoopBackOff"}}}]}}`, FailedState, "Containers in CrashLoop state: c"},
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
func TestWordsByState(t *testing.T) {
	for state, care := range map[State]trace.Care{
		Unsettled: {Unrest: "again and again", Next: noon}, Failing: {Failing: true, Error: "no", Attempts: 2, Next: noon},
		Paused:   {Paused: true, Failing: true, Error: "no", Attempts: 2, Unrest: "again and again", Next: noon},
		NotKnown: {Idle: true, Failing: true, Error: "no", Attempts: 2, Next: noon},
	} {
		one := subject(t, "a", "eur", care)
		words := one.Words()
		failing := state == Failing
		if words.State != state || (words.Error != "") != failing || (words.Attempts > 0) != failing ||
			(words.Unrest != "") != (state == Unsettled) || words.Next.IsZero() != (state == Paused || state == NotKnown) {
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
		{Process{Name: "p", Leads: true}, ""},
		{Process{Name: "p", Elects: true, Leads: true}, ""},
		{Process{Name: "p", Elects: true, Leader: "p-1"}, "The process p stands by: p-1 does the work, and has the timeline."},
		{Process{Name: "p", Elects: true}, "The process p stands by: the one that leads does the work, and has the timeline."},
		{Process{Name: "p", Leads: true, Book: BookStats{Off: true}}, "The process p keeps no history (--history-size)."},
	} {
		if got := c.process.Caveat(); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
	reviews, standing := &Controller{Everywhere: true}, Process{Name: "p", Elects: true}
	if got := standing.CaveatOn(reviews); got != "" || standing.CaveatOn(&Controller{}) == "" {
		t.Errorf("of reviews, which each replica answers: %q", got)
	}
	standing.Book.Off = true
	if got := standing.CaveatOn(reviews); !strings.Contains(got, "keeps no history") {
		t.Errorf("of reviews without a history: %q", got)
	}
}
