package inspect

import (
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/call"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/heaptest"
	"github.com/setpoint-dev/setpoint/internal/must"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
	"github.com/setpoint-dev/setpoint/internal/queue"
	"github.com/setpoint-dev/setpoint/internal/record"
	"github.com/setpoint-dev/setpoint/internal/redact"
)

var (
	rates   = object.Resource{Group: "example.org", Version: "v1", Plural: "rates", Kind: "Rate", Namespaced: true}
	secrets = object.Resource{Version: "v1", Plural: "secrets", Kind: "Secret", Namespaced: true}
	noon    = time.Date(2026, 4, 1, 12, 0, 0, 0, time.UTC)
)

// testRun is a run that called a hook with an object of this size.
func testRun(controller, name string, bytes int) record.Run {
	parent := json.RawMessage(`{"apiVersion":"example.org/v1","kind":"Rate","metadata":{"name":"` + name + `"},"spec":{"text":"` + strings.Repeat("x", bytes) + `"}}`)
	return record.Run{
		Controller: controller, Object: rates.Ref("town", name),
		Queued: queue.NewCauses(queue.Cause{Kind: queue.ParentChanged}), Began: noon, Took: time.Millisecond, Outcome: record.Synced,
		Steps: []record.Step{{Took: time.Millisecond, Call: &record.Call{
			Name: "sync", Sent: record.Request{Sync: &hook.Request{Parent: parent}}, Received: record.Response{Sync: &hook.Response{}},
		}}},
	}
}

func rateRef(name string) object.Ref {
	return object.Ref{Kind: object.Kind{Group: "example.org", Kind: "Rate"}, Namespace: "town", Name: name}
}

func TestHistoryKeepsRuns(t *testing.T) {
	b := NewHistory(HistoryOptions{}, noon)
	b.Add(testRun("a", "eur", 10))
	quiet := record.Run{Controller: "a", Object: rates.Ref("town", "eur"), Outcome: record.Skipped}
	b.Add(quiet)
	b.Add(quiet)
	b.Add(testRun("b", "eur", 10))
	b.Add(testRun("a", "usd", 10))
	b.Add(testRun("a", "eur", 10))
	runs := b.Runs(rateRef("eur"), 0)
	if len(runs) != 3 || runs[0].Controller != "a" || runs[1].Controller != "b" || runs[0].Noops != 2 || runs[2].Noops != 0 {
		t.Fatalf("got %+v", runs)
	}
	if runs[0].Steps[0].Call.Request != nil {
		t.Error("a list has requests")
	}
	whole := must.Get(b.Run(runs[0].ID)).In(t)
	call := whole.Steps[0].Call
	if call.Request == nil || call.Response == nil || call.Dropped || call.Previous != runs[2].ID {
		t.Errorf("called %+v", call)
	}
	if some := b.Runs(rateRef("eur"), 1); len(some) != 1 || some[0].ID != runs[0].ID {
		t.Errorf("the latest is %+v", some)
	}
	b.Drop("a")
	if left := b.Runs(rateRef("eur"), 0); len(left) != 1 || left[0].Controller != "b" {
		t.Errorf("left are %+v", left)
	}
	if _, err := b.Run(runs[0].ID); !errors.Is(err, failure.ErrNotFound) {
		t.Errorf("a run that is forgotten: %v", err)
	}
	if stats := b.Stats(); stats.Runs != 1 {
		t.Errorf("%+v", stats)
	}
}

// Fault U1: of a request about a former revision, the request before is the last one about
// that revision; of one about the latest, the last about what was the latest then.
func TestPreviousRequestsByRevision(t *testing.T) {
	b := NewHistory(HistoryOptions{}, noon)
	called := func(at ...record.Revision) record.Run {
		run := testRun("a", "eur", 10)
		step := run.Steps[0]
		run.Steps = nil
		for _, revision := range at {
			call := *step.Call
			call.Revision = &revision
			run.Steps = append(run.Steps, record.Step{Call: &call})
		}
		return run
	}
	one, two := record.Revision{Name: "one", Number: 1}, record.Revision{Name: "two", Number: 2}
	previous := one
	previous.Previous = true
	b.Add(called(one))
	b.Add(called(previous, two))
	b.Add(called(two))
	b.Add(called(two, previous))
	runs := b.Runs(rateRef("eur"), 0)
	for i, want := range [][]uint64{{runs[1].ID, runs[2].ID}, {runs[2].ID}, {runs[3].ID, runs[3].ID}, {0}} {
		run := must.Get(b.Run(runs[i].ID)).In(t)
		for k := range run.Steps {
			if call := run.Steps[k].Call; call.Previous != want[k] || call.Revision == nil {
				t.Errorf("run %d from the end, step %d, at %+v: compared with run %d, want %d", i, k, call.Revision, call.Previous, want[k])
			}
		}
	}
}

// Fault U5: once an object was run again, no run before says that it is to come again.
func TestNextOfLatestRun(t *testing.T) {
	b := NewHistory(HistoryOptions{}, noon)
	failing := testRun("a", "eur", 10)
	failing.Outcome, failing.Next = record.Failed, noon.Add(30*time.Second)
	other := failing
	other.Controller = "b"
	aside := testRun("a", "eur", 10)
	aside.Trigger = "daemon watch wrote"
	next := func() (found []string) {
		for _, run := range b.Runs(rateRef("eur"), 0) {
			if !run.Next.IsZero() {
				found = append(found, run.Controller)
			}
		}
		return found
	}
	b.Add(failing)
	b.Add(other)
	b.Add(aside)
	if got := next(); len(got) != 2 {
		t.Errorf("what is still to come again is of %q", got)
	}
	b.Add(testRun("a", "eur", 10))
	if got := next(); len(got) != 1 || got[0] != "b" {
		t.Errorf("after the recovery: %q", got)
	}
	b.Add(record.Run{Controller: "b", Object: failing.Object, Outcome: record.Skipped})
	if got := next(); len(got) != 0 {
		t.Errorf("after a run that found nothing to do: %q", got)
	}
}

func TestHistoryOff(t *testing.T) {
	b := NewHistory(HistoryOptions{Off: true}, noon)
	b.Add(testRun("a", "eur", 10))
	b.AddCall("a", "sync", "200", time.Second)
	if len(b.Series("a", noon).Points)+len(b.Series("", noon).Points) != 0 {
		t.Error("runs that were not counted are shown as none")
	}
	if stats := b.Stats(); !stats.Off || stats.Runs != 0 || len(b.Calls("a")) != 0 {
		t.Errorf("noted %+v", stats)
	}
}

// checkSums compares what a Book says of itself with what it has.
func checkSums(t *testing.T, b *History) {
	t.Helper()
	bytes, runs := 0, 0
	for name, s := range b.controllers {
		ofController, ofObjects := 0, 0
		for i, e := range s.entries {
			if i > 0 && e.run.ID <= s.entries[i-1].run.ID {
				t.Fatalf("%s: run %d does not follow the one before", name, e.run.ID)
			}
			if i < s.stripped && !e.rendered {
				t.Fatalf("%s: run %d has bodies", name, e.run.ID)
			}
			ofController += e.size
		}
		for _, d := range s.objects {
			ofObjects += len(d.entries)
			if len(d.entries) == 0 || len(d.entries) > maxObjectRuns {
				t.Errorf("%s: an object with %d runs", name, len(d.entries))
			}
		}
		if ofController != s.bytes || ofObjects != len(s.entries) {
			t.Fatalf("%s says %d bytes, has %d, and %d of %d runs by object", name, s.bytes, ofController, ofObjects, len(s.entries))
		}
		if s.bytes > maxControllerBytes || len(s.entries) > maxControllerRuns {
			t.Errorf("%s has %d runs of %d bytes", name, len(s.entries), s.bytes)
		}
		bytes, runs = bytes+s.bytes, runs+len(s.entries)
	}
	if stats := b.Stats(); stats.Bytes != bytes || stats.Runs != runs || bytes > stats.MaxBytes {
		t.Errorf("says %+v, has %d runs and %d bytes", stats, runs, bytes)
	}
}

func TestHistoryIsBounded(t *testing.T) {
	for _, c := range []struct {
		name                string
		max, controllers    int
		objects, runs, size int
	}{
		{"by the runs of an object", 0, 1, 1, 100, 10},
		{"by the runs of a controller", 0, 1, 500, 3000, 10},
		{"by the bytes of a controller", 0, 1, 500, 1000, 50_000},
		{"by the bytes of all", 1 << 20, 5, 100, 1000, 5000},
		{"by less than one run", 2000, 2, 10, 100, 50_000},
		{"by next to nothing", 1, 2, 10, 100, 100},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := NewHistory(HistoryOptions{MaxBytes: c.max}, noon)
			for i := range c.runs {
				b.Add(testRun(fmt.Sprint("c", i%c.controllers), fmt.Sprint("o", i%c.objects), c.size))
				if i%97 == 0 {
					checkSums(t, b)
				}
			}
			checkSums(t, b)
		})
	}
}

// The history drops the bodies of old runs before the runs, and a body that is too large
// evicts none.
func TestHistoryDropsBodiesFirst(t *testing.T) {
	b := NewHistory(HistoryOptions{}, noon)
	for i := range 10 {
		b.Add(testRun("a", fmt.Sprint("o", i), 1<<20))
	}
	dropped := 0
	for i := range 10 {
		runs := b.Runs(rateRef(fmt.Sprint("o", i)), 0)
		if len(runs) != 1 {
			t.Fatalf("o%d has %d runs", i, len(runs))
		}
		if runs[0].Steps[0].Call.Dropped {
			dropped++
		}
	}
	if dropped < 6 || dropped > 8 {
		t.Errorf("dropped %d of 10", dropped)
	}
	b.Add(testRun("a", "huge", 3<<20))
	if huge := b.Runs(rateRef("huge"), 0); len(huge) != 1 || !huge[0].Steps[0].Call.Dropped {
		t.Errorf("the huge one: %+v", huge)
	}
	if last := b.Runs(rateRef("o9"), 0); last[0].Steps[0].Call.Dropped {
		t.Error("the huge one pushed out another")
	}
	checkSums(t, b)
}

// A busy object leaves the others what they have.
func TestHistoryIsFair(t *testing.T) {
	b := NewHistory(HistoryOptions{}, noon)
	b.Add(testRun("a", "calm", 1000))
	for range 5000 {
		b.Add(testRun("a", "busy", 1000))
	}
	if calm := b.Runs(rateRef("calm"), 0); len(calm) != 1 || calm[0].Steps[0].Call.Dropped {
		t.Errorf("the calm one has %+v", calm)
	}
	if busy := b.Runs(rateRef("busy"), 0); len(busy) != maxObjectRuns {
		t.Errorf("the busy one has %d", len(busy))
	}
}

// A hundred thousand runs of many controllers take no more than the bound, by its own
// count and by the runtime's, roughly.
func TestHistoryMemory(t *testing.T) {
	b := NewHistory(HistoryOptions{}, noon)
	took := int(heaptest.Held(func() {
		for i := range 100_000 {
			b.Add(testRun(fmt.Sprint("c", i%20), fmt.Sprint("o", i%5000), 2000))
		}
		checkSums(t, b)
	}))
	stats := b.Stats()
	t.Logf("%d runs, %d bytes by its own count, %d by the runtime's", stats.Runs, stats.Bytes, took)
	if stats.Bytes > stats.MaxBytes || took > stats.MaxBytes*3/2 {
		t.Errorf("%d bytes by its own count, %d by the runtime's; no more than %d", stats.Bytes, took, stats.MaxBytes)
	}
	runtime.KeepAlive(b)
}

func TestHistoryRevision(t *testing.T) {
	b := NewHistory(HistoryOptions{}, noon)
	first, changed := b.Revision()
	if first == 0 {
		t.Error("revision 0 must not exist: readers request what follows it")
	}
	select {
	case <-changed:
		t.Error("nothing has changed yet")
	default:
	}
	b.Add(testRun("a", "eur", 1))
	<-changed
	if next, _ := b.Revision(); next == first {
		t.Error("nothing changed")
	}
}

// A run without a step keeps nothing of the object that it was about.
func TestHistoryReleasesObjects(t *testing.T) {
	o := parsed(t, `{"apiVersion":"example.org/v1","kind":"Rate","metadata":{"name":"eur","uid":"u-1"},"spec":{"text":"`+strings.Repeat("x", 1<<16)+`"}}`)
	b := NewHistory(HistoryOptions{}, noon)
	b.Add(record.Run{Controller: "a", Object: object.Ref{Kind: object.KindOf(rates), Name: "eur", UID: o.UID()}, Outcome: record.Failed, Err: errors.New("no")})
	kept := b.controllers["a"].entries[0].view().Object.UID
	if kept != "u-1" || unsafe.StringData(kept) == unsafe.StringData(o.UID()) {
		t.Errorf("%q is a view of the object", kept)
	}
}

// What is kept is counted, whatever it is in.
func TestSizes(t *testing.T) {
	long := strings.Repeat("x", 10_000)
	text, err := json.RawMessage(long), errors.New(long)
	names := make([]string, 1000)
	for i := range names {
		names[i] = "0123456789"
	}
	events := []hook.Event{{Message: long}}
	takenOver := &plan.TakeOver{Applied: map[string]any{"annotations": map[string]any{"a": long}, "finalizers": []any{"b"}}}
	for name, c := range map[string]struct {
		of    record.Run
		stays bool
	}{
		"error of a call":    {runWithStep(record.Step{Call: &record.Call{Err: err}}), false},
		"error of a write":   {runWithStep(record.Step{Write: &record.Write{Err: err}}), false},
		"event":              {runWithStep(record.Step{Event: &events[0]}), true},
		"events of a reply":  {runWithStep(record.Step{Call: &record.Call{Received: record.Response{Sync: &hook.Response{Events: events}}}}), false},
		"events of handlers": {runWithStep(record.Step{Call: &record.Call{Received: record.Response{Handler: &hook.HandlerResponse{Events: events}}}}), false},
		"changes":            {runWithStep(record.Step{Call: &record.Call{Sent: record.Request{Handler: &hook.HandlerRequest{Changes: []hook.FieldChange{{To: text}}}}}}), false},
		"labels of a reply":  {runWithResponse(&hook.Response{Labels: map[string]*string{"a": &long}}), false},
		"notes of a reply":   {runWithResponse(&hook.Response{Annotations: map[string]*string{"a": &long}}), false},
		"conditions":         {runWithResponse(&hook.Response{Conditions: []hook.Condition{{Message: long}}}), false},
		"message":            {runWithResponse(&hook.Response{Message: long + "."}), false},
		"deletions":          {runWithStep(record.Step{Call: &record.Call{Received: record.Response{Handler: &hook.HandlerResponse{Delete: []hook.Deletion{{Name: long}}}}}}), false},
		"warnings":           {runWithStep(record.Step{Call: &record.Call{Received: record.Response{Review: &hook.ReviewResponse{Warnings: []string{long}}}}}), false},
		"denial": {runWithStep(record.Step{Call: &record.Call{
			Sent: record.Request{Review: &hook.ReviewRequest{}}, Received: record.Response{Review: &hook.ReviewResponse{Denial: &hook.Denial{Message: long}}},
		}}), false}, // Its start stays, for the list of reviews.
		"taken over": {runWithStep(record.Step{Plan: &record.Planned{Stages: [][]plan.Action{{{TakeOver: takenOver}}}}}), false},
		"rules":      {runWithStep(record.Step{Call: &record.Call{Received: record.Response{Customize: &hook.CustomizeResponse{Related: []hook.RelatedRule{{Names: names}}}}}}), false},
	} {
		e := newEntry(&c.of, redact.NewKey())
		whole := e.size
		e.strip()
		if whole < len(long) || c.stays != (e.size > len(long)) {
			t.Errorf("%s: of %d bytes %d stay", name, whole, e.size)
		}
	}
}

func runWithResponse(r *hook.Response) record.Run {
	return runWithStep(record.Step{Call: &record.Call{Received: record.Response{Sync: r}}})
}

func runWithStep(s record.Step) record.Run { return record.Run{Steps: []record.Step{s}} }

// Without the previous object, the changes of an apply are unknown.
func TestApplyWithoutPrevious(t *testing.T) {
	after := parsed(t, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c","namespace":"town"},"data":{"a":"b"}}`)
	for verb, want := range map[string]bool{string(plan.Apply): false, string(plan.Create): true} {
		run := runWithStep(record.Step{Write: &record.Write{Verb: verb, Object: after.Ref(), After: after}})
		if write := run.Render(true).Steps[0].Write; write.Unchanged || want != (len(write.Changes) > 0) {
			t.Errorf("%s: %+v", verb, write)
		}
	}
}

func TestCalls(t *testing.T) {
	b := NewHistory(HistoryOptions{}, noon)
	for i := range 300 {
		b.AddCall("a", "greet", "ok", time.Duration(i)*time.Millisecond)
	}
	b.AddCall("a", "greet", "error", time.Second)
	b.Add(testRun("a", "eur", 1))
	b.AddHookCall("b", "sync", "200", time.Second)
	b.Add(testRun("b", "eur", 1))
	got := fmt.Sprint(b.Calls("a"), b.Calls("b"))
	want := "[{greet error 1 1s 1s} {greet ok 300 172ms 297ms} {sync ok 1 1ms 1ms}] [{sync 200 1 1s 1s}]"
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestSeries(t *testing.T) {
	b := NewHistory(HistoryOptions{}, noon)
	at := func(after time.Duration, took time.Duration, outcome record.Outcome) {
		run := testRun("a", "eur", 1)
		run.Began, run.Took, run.Outcome = noon.Add(after), took, outcome
		b.Add(run)
	}
	at(0, time.Millisecond, record.Synced)
	at(time.Second, 3*time.Millisecond, record.Failed)
	at(2*time.Second, 2*time.Millisecond, record.Synced)
	at(12*time.Second, time.Second, record.Synced)
	s := b.Series("a", noon.Add(20*time.Second))
	if s.Every != 5*time.Second || len(s.Points) != maxPoints {
		t.Fatalf("%v, %d points", s.Every, len(s.Points))
	}
	want := []Point{{Runs: 3, Failed: 1, Median: 2 * time.Millisecond}, {}, {Runs: 1, Median: time.Second}, {}, {}}
	if got := s.Points[maxPoints-5:]; fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %v\nwant %v", got, want)
	}
	if old := b.Series("", noon.Add(time.Hour)); fmt.Sprint(old.Points) != fmt.Sprint(make([]Point, maxPoints)) {
		t.Errorf("an hour later %v", old.Points)
	}
}

// runWithPlan is a run like those of controllers at work: two questions, a plan, a write
// and the status.
func runWithPlan(b *testing.B, name string) record.Run {
	b.Helper()
	run := testRun("a", name, 1000)
	child := parsed(b, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c","namespace":"town","uid":"u"},"data":{"a":"b"}}`)
	run.Steps = append(run.Steps, record.Step{Plan: &record.Planned{Stages: [][]plan.Action{{{Verb: plan.Create, Ref: child.Ref(), After: child, Reason: "missing"}}}}},
		record.Step{Write: &record.Write{Verb: string(plan.Create), Object: child.Ref(), Version: "7"}}, run.Steps[0],
		record.Step{Write: &record.Write{Verb: string(plan.Update), Part: "status", Before: child, After: child}})
	return run
}

func BenchmarkAdd(b *testing.B) {
	runs := make([]record.Run, 1000)
	for i := range runs {
		runs[i] = runWithPlan(b, fmt.Sprint("o", i))
	}
	history := NewHistory(HistoryOptions{}, noon)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		history.Add(runs[i%len(runs)])
	}
}

func BenchmarkAddNoop(b *testing.B) {
	history := NewHistory(HistoryOptions{}, noon)
	history.Add(testRun("a", "eur", 100))
	run := record.Run{Controller: "a", Object: rates.Ref("town", "eur"), Outcome: record.Skipped}
	b.ReportAllocs()
	for b.Loop() {
		history.Add(run)
	}
}

// A full Book strips a run for each that it takes.
func BenchmarkAddFull(b *testing.B) {
	history := NewHistory(HistoryOptions{}, noon)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		b.StopTimer()
		runs := make([]record.Run, 500)
		for j := range runs {
			runs[j] = runWithPlan(b, fmt.Sprint("o", (i*len(runs)+j)%2000))
			runs[j].Object.UID = "8a2d1c1e-0c55-4a0e-9d8c-1f1f4a4b4c4d"
		}
		b.StartTimer()
		for _, run := range runs {
			history.Add(run)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*500), "ns/note")
}

// What explains the failures of an object stays in its history, however often it fails.
func TestHistoryKeepsLastGoodRun(t *testing.T) {
	b := NewHistory(HistoryOptions{}, noon)
	failed := func(attempt int) record.Run {
		r := testRun("a", "eur", 10)
		r.Outcome, r.Attempt, r.Err = record.Failed, attempt, errors.New("no")
		return r
	}
	b.Add(testRun("a", "eur", 10))
	b.Add(testRun("a", "eur", 10))
	good := b.Runs(rateRef("eur"), 1)[0].ID
	for i := range 3 * maxObjectRuns {
		b.Add(failed(i))
	}
	runs := b.Runs(rateRef("eur"), 0)
	last := len(runs) - 1
	if len(runs) != maxObjectRuns || runs[last].ID != good || runs[last-1].Attempt != 0 || runs[0].Attempt != 3*maxObjectRuns-1 || runs[last-2].Attempt == 1 {
		t.Errorf("%d runs, the first ones are %+v", len(runs), runs[last-2:])
	}
	for range maxObjectRuns {
		b.Add(testRun("a", "eur", 10))
	}
	if runs := b.Runs(rateRef("eur"), 0); len(runs) != maxObjectRuns || runs[maxObjectRuns-1].Outcome != "synced" {
		t.Errorf("after it recovered: %d runs", len(runs))
	}
}

// What a hook printed is read with its run. It is not kept with values of Secrets, and not shown to
// readers who may not get all objects of the request.
func TestHistoryKeepsOutput(t *testing.T) {
	printed := func(run record.Run) Run {
		b := NewHistory(HistoryOptions{}, noon)
		ctx, output := call.WithOutput(t.Context())
		call.OutputOf(ctx).Add("hello")
		run.Steps[0].Call.Printed = output
		b.Add(run)
		listed := b.Runs(object.Ref{Kind: run.Object.Kind, Namespace: "town", Name: "eur"}, 0)
		if len(listed) != 1 || listed[0].Steps[0].Call.Output != nil {
			t.Fatalf("listed: %+v", listed)
		}
		return must.Get(b.Run(listed[0].ID)).In(t)
	}
	whole := printed(testRun("a", "eur", 10))
	if got := whole.Steps[0].Call.Output; len(got) != 1 || got[0] != "hello" {
		t.Errorf("printed %q", got)
	}
	hidden := Redact(whole, func(object.Kind, string) bool { return false })
	if got := hidden.Steps[0].Call.Output; len(got) != 1 || got[0] != Redacted {
		t.Errorf("shown to a reader without permissions: %q", got)
	}
	secret := testRun("a", "eur", 10)
	secret.Steps[0].Call.Sent.Sync.Related = []hook.Group{{APIVersion: "v1", Kind: "Secret", Objects: []hook.Entry{{Name: "s", Object: []byte(`{"apiVersion":"v1","kind":"Secret","metadata":{"name":"s"},"data":{"k":"eA=="}}`)}}}}
	if got := printed(secret).Steps[0].Call; got.Output != nil || !got.OutputHidden {
		t.Errorf("with a Secret: %q, hidden %t", got.Output, got.OutputHidden)
	}
}

// addReview adds a review of a Rate.
func addReview(b *History, name string, at time.Duration, outcome record.Outcome, r *hook.ReviewResponse) {
	request := &hook.ReviewRequest{Operation: hook.OperationCreate, Name: name, Object: json.RawMessage(`{"spec":{"text":"x"}}`), User: hook.User{Name: "anna", Groups: []string{"devs"}}}
	b.Add(record.Run{
		Controller: "policy", Object: rates.Ref("town", name), Trigger: "create by anna", Began: noon.Add(at), Outcome: outcome,
		Steps: []record.Step{{Call: &record.Call{
			Name: "images", Sent: record.Request{Review: request},
			Received: record.Response{Review: r, ReviewPatch: json.RawMessage(`[{"op":"replace","path":"/spec/text","value":"y"}]`)},
		}}},
	})
}

// Fault U3: of a controller that does nothing but review, it could not be seen what it had
// reviewed, and why it had refused that.
func TestReviewsOfAController(t *testing.T) {
	b := NewHistory(HistoryOptions{}, noon)
	addReview(b, "eur", 0, "denied", &hook.ReviewResponse{Denial: &hook.Denial{Message: "no tag"}})
	addReview(b, "usd", 2*time.Second, "denied", &hook.ReviewResponse{Denial: &hook.Denial{Message: "image :latest is not pinned"}})
	addReview(b, "eur", time.Second, "mutated", &hook.ReviewResponse{})
	b.Add(testRun("policy", "eur", 10))
	var got []string
	for _, run := range b.Reviews("policy", false) {
		review := run.Review()
		got = append(got, strings.Join([]string{run.Object.Name, run.Outcome, review.User, run.ReviewMessage()}, " "))
		if len(review.Groups)+len(review.Changes)+len(run.Steps[0].Call.Request) != 0 {
			t.Errorf("a list has details: %+v", review)
		}
	}
	want := []string{"usd denied anna image :latest is not pinned", "eur mutated anna changed spec.text", "eur denied anna no tag"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
	detailed := b.Reviews("policy", true)[1]
	if review := detailed.Review(); len(review.Groups) != 1 || len(review.Changes) != 1 || string(review.Changes[0].From) != `"x"` || detailed.Steps[0].Call.Request != nil {
		t.Errorf("in detail %+v", detailed)
	}
	if none := b.Reviews("other", true); len(none) != 0 {
		t.Errorf("of another controller: %+v", none)
	}
}

// A busy webhook displaces neither denials nor the memory of others.
func TestDenialsOutliveAllowedReviews(t *testing.T) {
	b := NewHistory(HistoryOptions{}, noon)
	denied := &hook.ReviewResponse{Denial: &hook.Denial{Message: "no tag"}}
	addReview(b, "eur", 0, "denied", denied)
	addReview(b, "", 0, "failed", nil)
	for i := range 3 * maxControllerRuns {
		addReview(b, []string{"", "eur", fmt.Sprint("o", i)}[i%3], time.Duration(i), "allowed", nil)
	}
	all := b.Reviews("policy", false)
	if len(all) != maxControllerRuns || all[len(all)-1].Outcome != "denied" || all[len(all)-2].Outcome != "failed" {
		t.Fatalf("%d reviews, the oldest are %+v", len(all), all[len(all)-2:])
	}
	for range maxControllerRuns + 1 {
		addReview(b, "", 0, "denied", denied)
	}
	if s := b.controllers["policy"]; s.allowed != 0 || len(s.entries) != maxControllerRuns || len(s.objects) != 1 {
		t.Errorf("%d allowed of %d reviews of %d objects after more denials", s.allowed, len(s.entries), len(s.objects))
	}
}

// A webhook that says much displaces neither its earlier reviews nor others from the memory.
func TestLongReviewTexts(t *testing.T) {
	b := NewHistory(HistoryOptions{}, noon)
	addReview(b, "first", 0, "allowed", nil)
	long := strings.Repeat("€", 1<<20)
	for i := range 100 {
		addReview(b, fmt.Sprint("o", i), time.Second, "denied", &hook.ReviewResponse{Denial: &hook.Denial{Message: long, Reason: long}, Warnings: slices.Repeat([]string{long}, 100)})
	}
	all := b.Reviews("policy", false)
	if size := b.Stats().Bytes; len(all) != 101 || size > maxControllerBytes {
		t.Errorf("%d reviews of %d bytes", len(all), size)
	}
	if review := all[0].Review(); len(review.Message) > 2000+3 || !strings.HasSuffix(review.Message, "€…") || len(review.Warnings) != 16 {
		t.Errorf("a message of %d bytes, %d warnings", len(review.Message), len(review.Warnings))
	}
}

// BenchmarkReview is a webhook of a busy controller: the history is full.
func BenchmarkReview(b *testing.B) {
	history := NewHistory(HistoryOptions{}, noon)
	pod := json.RawMessage(`{"metadata":{"name":"web"},"spec":{"text":"` + strings.Repeat("x", 5000) + `"}}`)
	add := func(i int) {
		request := &hook.ReviewRequest{Operation: hook.OperationCreate, Name: "web", Object: pod, User: hook.User{Name: "anna", Groups: []string{"devs"}}}
		history.Add(record.Run{
			Controller: "policy", Object: rates.Ref("town", strconv.Itoa(i%5000)), Trigger: "create by anna", Began: noon, Outcome: "allowed",
			Steps: []record.Step{{Call: &record.Call{Name: "images", Sent: record.Request{Review: request}, Received: record.Response{Review: &hook.ReviewResponse{}}}}},
		})
	}
	for i := range 2 * maxControllerRuns {
		add(i)
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		add(i)
	}
}
