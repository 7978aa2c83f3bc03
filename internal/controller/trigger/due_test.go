package trigger

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/lasthandled"
	"github.com/setpoint-dev/setpoint/internal/must"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/queue"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func parse(t *testing.T, text string) *object.Object {
	t.Helper()
	return must.Get(object.Parse([]byte(text))).In(t)
}

// newRate returns a Rate with one word in the watched fields.
func newRate(t *testing.T, word string) *object.Object {
	return parse(t, `{"apiVersion":"example.org/v1","kind":"Rate","metadata":{"name":"eur","namespace":"town","uid":"u-1",`+
		`"creationTimestamp":"2026-03-01T11:00:00Z"},"spec":{"word":"`+word+`"}}`)
}

func newDeletedRate(t *testing.T, word string) *object.Object {
	return parse(t, strings.Replace(string(newRate(t, word).JSON()), `"metadata":{`, `"metadata":{"deletionTimestamp":"2026-03-01T11:59:00Z","finalizers":["f"],`, 1))
}

// summary returns the calls with their reasons, the new entries, and the next time.
func (a decision) summary() string {
	var parts []string
	for _, c := range a.Calls {
		word := c.Handler.Name + " " + strings.ToLower(string(c.Reason))
		if c.Attempt > 0 {
			word += fmt.Sprintf(" attempt %d", c.Attempt)
		}
		if c.Previous != nil {
			word += " from " + strings.Trim(string(c.Previous.Field("spec", "word")), `"`)
		}
		parts = append(parts, word)
	}
	for _, h := range a.firstSeen {
		parts = append(parts, h.Name+" first")
	}
	if !a.next.IsZero() {
		parts = append(parts, "again in "+a.next.Sub(noon).String())
	}
	return strings.Join(parts, ", ")
}

const (
	onCreate = hook.ReasonCreate
	onUpdate = hook.ReasonUpdate
	onDelete = hook.ReasonDelete
	onResume = hook.ReasonResume
	onDrift  = hook.ReasonDrift
)

func on(reasons ...hook.Reason) Handler { return Handler{On: reasons} }

func (h Handler) with(change func(*Handler)) Handler {
	change(&h)
	return h
}

// TestPendingCalls checks the decision table of the design.
func TestPendingCalls(t *testing.T) {
	digestOf := func(word string) string { return lasthandled.Digest(watchableFields(newRate(t, word))) }
	a, b := digestOf("a"), digestOf("b")
	isA := func(_, now *object.Object) bool { return string(now.Field("spec", "word")) == `"a"` }
	changed := func(old, now *object.Object) bool { return old != nil && old != now }
	failedOn := func(reason hook.Reason, input string, wait time.Duration) func(*State) {
		return func(m *State) {
			m.Attempt = Attempt{reason: reason, digest: input, Count: 2, Since: noon.Add(-time.Minute), Next: noon.Add(wait)}
		}
	}
	first := func(word string) func(*State) {
		return func(m *State) { m.known, m.firstDigest = []seen{{digestOf(word), newRate(t, word)}}, digestOf(word) }
	}
	unwritten := func(patch string) func(*Pass) {
		return func(p *Pass) {
			p.Responses = []*Response{{Call: Call{Handler: p.Handlers[0]}, Response: &hook.HandlerResponse{Patch: []byte(patch)}}}
		}
	}
	for name, c := range map[string]struct {
		handler Handler
		object  *object.Object
		entry   lasthandled.Entry
		memory  func(*State)
		change  func(*Pass)
		want    string
	}{
		"create":                           {handler: on(onCreate), want: "h create"},
		"create, dealt with":               {handler: on(onCreate), entry: lasthandled.Entry{Digest: a}},
		"create, edited since":             {handler: on(onCreate), entry: lasthandled.Entry{Digest: b}},
		"create, older than its program":   {handler: on(onCreate, onUpdate), entry: lasthandled.Entry{}, want: "h create"},
		"create, of no interest":           {handler: on(onCreate).with(func(h *Handler) { h.When = isA }), object: newRate(t, "b")},
		"create, begins to match":          {handler: on(onCreate).with(func(h *Handler) { h.When = isA }), want: "h create"},
		"create, matches again":            {handler: on(onCreate).with(func(h *Handler) { h.When = isA }), entry: lasthandled.Entry{Digest: a}},
		"create and update, new":           {handler: on(onCreate, onUpdate), want: "h create"},
		"create and update, dealt with":    {handler: on(onCreate, onUpdate), entry: lasthandled.Entry{Digest: a}},
		"create and update, edited":        {handler: on(onCreate, onUpdate), entry: lasthandled.Entry{Digest: b}, want: "h update"},
		"update, at first sight":           {handler: on(onUpdate), want: "h first"},
		"update, dealt with":               {handler: on(onUpdate), entry: lasthandled.Entry{Digest: a}},
		"update":                           {handler: on(onUpdate), entry: lasthandled.Entry{Digest: b}, want: "h update"},
		"update, from what is known":       {handler: on(onUpdate), entry: lasthandled.Entry{Digest: b}, memory: first("b"), want: "h update from b"},
		"update, ceased to match":          {handler: on(onUpdate).with(func(h *Handler) { h.When = isA }), object: newRate(t, "b"), entry: lasthandled.Entry{Digest: a}},
		"update, matches again, edited":    {handler: on(onUpdate).with(func(h *Handler) { h.When = isA }), entry: lasthandled.Entry{Digest: b}, want: "h update"},
		"update, cares for changes":        {handler: on(onUpdate).with(func(h *Handler) { h.When = changed }), memory: first("b"), want: "h update from b"},
		"update, cares for changes, none":  {handler: on(onUpdate).with(func(h *Handler) { h.When = changed }), memory: first("a")},
		"update, of another field":         {handler: on(onUpdate).with(func(h *Handler) { h.Fields = [][]string{{"spec", "other"}} }), entry: lasthandled.Entry{Digest: lasthandled.Digest(map[string]any{})}},
		"update, as the server stored it":  {handler: on(onUpdate), entry: lasthandled.Entry{Digest: b}, memory: func(m *State) { m.serverDigest.recorded, m.serverDigest.actual = b, a }},
		"update, not written yet":          {handler: on(onUpdate), entry: lasthandled.Entry{Digest: a}, memory: first("a"), change: unwritten(`{"spec":{"word":"b"}}`)},
		"update, written in part":          {handler: on(onUpdate), entry: lasthandled.Entry{Digest: b}, memory: first("b"), change: unwritten(`{"spec":{"word":"a","other":1}}`)},
		"update, edited, not written yet":  {handler: on(onUpdate), entry: lasthandled.Entry{Digest: b}, memory: first("b"), change: unwritten(`{"spec":{"other":1}}`), want: "h update from b"},
		"update, its response was dropped": {handler: on(onUpdate), entry: lasthandled.Entry{Digest: a, Dropped: true}, want: "h update"},
		"create, its response was dropped": {handler: on(onCreate), entry: lasthandled.Entry{Digest: a, Dropped: true}, want: "h create"},
		"update, failed a moment ago":      {handler: on(onUpdate), entry: lasthandled.Entry{Digest: b}, memory: failedOn(onUpdate, a, time.Second), want: "again in 1s"},
		"update, failed long ago":          {handler: on(onUpdate), entry: lasthandled.Entry{Digest: b}, memory: failedOn(onUpdate, a, -time.Second), want: "h update attempt 2"},
		"update, failed on another input":  {handler: on(onUpdate), entry: lasthandled.Entry{Digest: b}, memory: failedOn(onUpdate, b, time.Second), want: "h update attempt 2"},
		"update, failed, user asks":        {handler: on(onUpdate), entry: lasthandled.Entry{Digest: b}, memory: failedOn(onUpdate, a, time.Second), change: because(queue.HookChanged), want: "h update attempt 2"},
		"gave up":                          {handler: on(onCreate, onUpdate), entry: lasthandled.Entry{Digest: a, Failed: true}},
		"gave up, edited":                  {handler: on(onCreate, onUpdate), entry: lasthandled.Entry{Digest: b, Failed: true}, want: "h update"},
		"gave up, user asks":               {handler: on(onCreate, onUpdate), entry: lasthandled.Entry{Digest: a, Failed: true}, change: because(queue.HookChanged), want: "h update"},
		"gave up on create, edited":        {handler: on(onCreate), entry: lasthandled.Entry{Digest: b, Failed: true}, want: "h create"},
		"limits, after a restart":          {handler: on(onCreate), entry: lasthandled.Entry{Attempts: 2}, memory: func(m *State) { m.Attempt.Count = 2 }, want: "h create attempt 2"},
		"resume":                           {handler: on(onResume), entry: lasthandled.Entry{Digest: a}, memory: func(m *State) { m.Resumed = false }, want: "h resume"},
		"resume, done":                     {handler: on(onResume), entry: lasthandled.Entry{Digest: a}},
		"resume, new":                      {handler: on(onResume), want: "h first"},
		"resume, edited meanwhile":         {handler: on(onResume, onUpdate), entry: lasthandled.Entry{Digest: b}, memory: func(m *State) { m.Resumed = false }, want: "h update"},
		"resume, edited, without update":   {handler: on(onResume), entry: lasthandled.Entry{Digest: b}, memory: func(m *State) { m.Resumed = false }, want: "h resume"},
		"drift":                            {handler: on(onDrift), entry: lasthandled.Entry{Digest: a, OwnedDigest: "other"}, want: "h drift"},
		"drift, none":                      {handler: on(onDrift), entry: lasthandled.Entry{Digest: a, OwnedDigest: "owned"}},
		"drift, at first sight":            {handler: on(onDrift), want: "h first"},
		"drift, in a later release":        {handler: on(onCreate, onDrift), entry: lasthandled.Entry{Digest: a}, want: "h first"},
		"drift and update":                 {handler: on(onUpdate, onDrift), entry: lasthandled.Entry{Digest: b, OwnedDigest: "other"}, want: "h update"},
		"drift, once more":                 {handler: on(onDrift), entry: lasthandled.Entry{Digest: a, OwnedDigest: "owned"}, memory: func(m *State) { m.Attempt = Attempt{reason: onDrift, digest: "owned", requeued: true} }, want: "h drift"},
		"drift and an update of no matter": {handler: on(onUpdate, onDrift).with(func(h *Handler) { h.When = func(old, _ *object.Object) bool { return old == nil } }), entry: lasthandled.Entry{Digest: b, OwnedDigest: "other"}, memory: first("b"), want: ""},
		"event":                            {handler: on(hook.ReasonEvent)},
		"delete":                           {handler: on(onDelete), object: newDeletedRate(t, "a"), want: "h delete"},
		"delete, without finalizer":        {handler: on(onDelete), object: newDeletedRate(t, "a"), change: func(p *Pass) { p.Rules.Finalizer = "" }},
		"delete, optional":                 {handler: on(onDelete).with(func(h *Handler) { h.Optional = true }), object: newDeletedRate(t, "a"), change: func(p *Pass) { p.Rules.Finalizer = "" }, want: "h delete"},
		"delete, done":                     {handler: on(onDelete), object: newDeletedRate(t, "a"), entry: lasthandled.Entry{Done: true}},
		"delete, gave up":                  {handler: on(onDelete), object: newDeletedRate(t, "a"), entry: lasthandled.Entry{Digest: "-" + a, Failed: true}},
		"delete, gave up, edited":          {handler: on(onDelete), object: newDeletedRate(t, "b"), entry: lasthandled.Entry{Digest: "-" + a, Failed: true}, want: "h delete"},
		"delete, gave up on an update":     {handler: on(onUpdate, onDelete), object: newDeletedRate(t, "a"), entry: lasthandled.Entry{Digest: a, Failed: true}, want: "h delete"},
		"delete, not deleted":              {handler: on(onDelete)},
		"update of what is deleted":        {handler: on(onCreate, onUpdate, onResume, onDrift), object: newDeletedRate(t, "b"), entry: lasthandled.Entry{Digest: a}},
		"timer, not yet":                   {handler: every(time.Hour), change: func(p *Pass) { p.Now = func() time.Time { return noon.Add(-time.Minute) } }, memory: func(m *State) { m.lastTick = noon.Add(-time.Hour) }, want: "again in 0s"},
		"timer":                            {handler: every(time.Hour), memory: func(m *State) { m.lastTick = noon.Add(-time.Hour) }, want: "h timer"},
		"timer, user asks":                 {handler: every(time.Hour), memory: func(m *State) { m.lastTick = noon.Add(time.Minute) }, change: because(queue.ReconcileRequested), want: "h timer"},
		"timer, while deleted":             {handler: every(time.Hour), object: newDeletedRate(t, "a"), memory: func(m *State) { m.lastTick = noon.Add(-time.Hour) }},
		// Fault H7.
		"timer, late a moment ago":    {handler: every(time.Hour), memory: func(m *State) { m.lastTick = noon.Add(-time.Minute) }, want: "again in 59m0s"},
		"timer, held back":            {handler: every(time.Hour).with(func(h *Handler) { h.Idle = 10 * time.Minute }), memory: func(m *State) { m.lastTick, m.WatchedSince = noon.Add(-time.Hour), noon.Add(-time.Minute) }, want: "again in 9m0s"},
		"timer, idle for long enough": {handler: every(time.Hour).with(func(h *Handler) { h.Idle = 10 * time.Minute }), memory: func(m *State) { m.lastTick, m.WatchedSince = noon.Add(-time.Hour), noon.Add(-time.Hour) }, want: "h timer"},
		"timer, failed":               {handler: every(time.Hour), memory: failedOn(hook.ReasonTimer, "", time.Minute), want: "again in 1m0s"},
		"timer, of no interest":       {handler: every(time.Hour).with(func(h *Handler) { h.When = isA }), object: newRate(t, "b"), memory: func(m *State) { m.lastTick = noon.Add(-time.Hour) }},
	} {
		t.Run(name, func(t *testing.T) {
			c.handler.Name, c.handler.Do = "h", hook.HandlerFunc(nil)
			if c.object == nil {
				c.object = newRate(t, "a")
			}
			m := &State{Handler: &c.handler, Progress: Progress{Resumed: true}, storedEntry: c.entry}
			m.watched = lasthandled.Digest(m.WatchedFields(c.object))
			if c.memory != nil {
				c.memory(m)
			}
			p := NewPass(Observation{
				Rules: &Rules{Finalizer: "f"}, Object: c.object, OwnedDigest: "owned", Now: func() time.Time { return noon },
			}, &States{firstSeen: noon.Add(-24 * time.Hour), Handlers: []*State{m}})
			if c.change != nil {
				c.change(p)
			}
			if got := p.dueCalls(p.Handlers).summary(); got != c.want {
				t.Errorf("due for %q, want %q", got, c.want)
			}
		})
	}
}

func because(kind queue.CauseKind) func(*Pass) {
	return func(p *Pass) { p.Causes = queue.NewCauses(queue.Cause{Kind: kind}) }
}

func every(interval time.Duration) Handler { return Handler{Every: interval} }

func TestTimerTimes(t *testing.T) {
	o := newRate(t, "a") // created at 11:00
	at := func(text string) time.Time {
		return must.Get(time.Parse(time.RFC3339, "2026-03-01T"+text+"Z")).In(t)
	}
	for _, c := range []struct{ after, want string }{
		{"11:00:00", "11:20:00"}, {"11:19:59", "11:20:00"}, {"11:20:00", "11:40:00"}, {"12:30:00", "12:40:00"},
	} {
		h := every(20 * time.Minute)
		if got := h.nextTime(o, at(c.after)); !got.Equal(at(c.want)) {
			t.Errorf("after %s comes %s, want %s", c.after, got.Format(time.TimeOnly), c.want)
		}
		h.Jitter = 5 * time.Minute
		shift := h.jitterOffset(o.UID())
		if late := h.nextTime(o, at(c.after).Add(shift)).Sub(at(c.want)); shift <= 0 || shift >= h.Jitter || late != shift {
			t.Errorf("after %s it is late by %s, the shift is %s", c.after, late, shift)
		}
	}
	ahead := every(20 * time.Minute)
	if got := ahead.nextTime(o, at("10:00:00")); !got.Equal(at("10:20:00")) {
		t.Errorf("created by an API server whose clock is ahead, it is called at %s", got.Format(time.TimeOnly))
	}
	h := Handler{Schedule: hourlySchedule{}, Jitter: time.Minute}
	if got := h.nextTime(o, at("12:30:00").Add(h.jitterOffset(o.UID()))); got.Sub(at("13:00:00")) != h.jitterOffset(o.UID()) {
		t.Errorf("the calendar says %s", got)
	}
	h = Handler{Schedule: emptySchedule{}}
	if got := h.nextTime(o, noon); !got.IsZero() {
		t.Errorf("a calendar without moments says %s", got)
	}
}

// After the clock was set back by three minutes, no timer waits until the clock shows again what it showed. A schedule
// does not make the call again that it has just made.
func TestTimersAfterTheClockWasSetBack(t *testing.T) {
	const back = 3 * time.Minute
	for name, c := range map[string]struct {
		handler Handler
		lapse   time.Duration // of the real time from one run to the next
		want    string        // when it is called, in real time after the clock was set back
	}{
		"interval":                 {every(time.Minute), time.Second, "1m0s 2m0s 3m0s 4m0s"},
		"interval from first seen": {every(time.Minute).with(func(h *Handler) { h.FromFirstSeen = true }), time.Second, "1m0s 2m0s 3m0s 4m0s"},
		"schedule":                 {Handler{Schedule: everyMinute{}}, time.Second, "1m0s 2m0s 3m0s 4m0s"},
		"hourly":                   {Handler{Schedule: hourlySchedule{}}, time.Second, "1h3m0s 2h3m0s"},
	} {
		t.Run(name, func(t *testing.T) {
			c.handler.Name, c.handler.Do = "h", hook.HandlerFunc(nil)
			m := &State{Handler: &c.handler, Progress: Progress{Resumed: true}}
			clock := noon.Add(-time.Hour)
			p := NewPass(Observation{Rules: &Rules{Finalizer: "f"}, Object: newRate(t, "a"), Now: func() time.Time { return clock }},
				&States{firstSeen: clock, Handlers: []*State{m}})
			step := func() (called bool) {
				p.observeTimer(m, clock)
				for _, due := range p.dueCalls(p.Handlers).Calls {
					m.ticked(due, clock)
					called = true
				}
				return called
			}
			for ; !clock.After(noon); clock = clock.Add(c.lapse) {
				step()
			}
			clock = clock.Add(-back)
			var called []string
			for past := time.Duration(0); len(called) < len(strings.Fields(c.want)) && past < 3*time.Hour; past += c.lapse {
				if step() {
					called = append(called, past.Round(time.Minute).String())
				}
				clock = clock.Add(c.lapse)
			}
			if got := strings.Join(called, " "); got != c.want {
				t.Errorf("called after %s, want %s", got, c.want)
			}
		})
	}
}

type everyMinute struct{}

func (everyMinute) Next(t time.Time) time.Time { return t.Truncate(time.Minute).Add(time.Minute) }

type hourlySchedule struct{}

func (hourlySchedule) Next(t time.Time) time.Time { return t.Truncate(time.Hour).Add(time.Hour) }

type emptySchedule struct{}

func (emptySchedule) Next(time.Time) time.Time { return time.Time{} }

func TestRetryLimits(t *testing.T) {
	for name, c := range map[string]struct {
		handler Handler
		attempt Attempt
		want    bool
	}{
		"none":             {Handler{}, Attempt{Count: 1000}, false},
		"once":             {Handler{Retries: -1}, Attempt{Count: 1}, true},
		"retries left":     {Handler{Retries: 2}, Attempt{Count: 2}, false},
		"no retries left":  {Handler{Retries: 2}, Attempt{Count: 3}, true},
		"time left":        {Handler{RetryTimeout: time.Minute}, Attempt{Count: 9, Since: noon, Next: noon.Add(time.Minute)}, false},
		"no time left":     {Handler{RetryTimeout: time.Minute}, Attempt{Count: 9, Since: noon, Next: noon.Add(61 * time.Second)}, true},
		"both, first time": {Handler{Retries: 5, RetryTimeout: time.Minute}, Attempt{Count: 2, Since: noon, Next: noon.Add(time.Hour)}, true},
	} {
		if got := c.handler.exhausted(c.attempt); got != c.want {
			t.Errorf("%s: exhausted is %v", name, got)
		}
	}
}

func TestBackoff(t *testing.T) {
	for failures, want := range map[int]time.Duration{1: time.Second, 2: 2 * time.Second, 5: 16 * time.Second, 9: 256 * time.Second, 10: 300 * time.Second, 1000: 300 * time.Second} {
		if got := BackoffAfter(failures, FirstDelay, LongestDelay, rand.Float64); got < want || got > want*5/4 {
			t.Errorf("after %d failures %s, want about %s", failures, got, want)
		}
	}
	h := Handler{Backoff: time.Minute, MaxBackoff: time.Hour}
	if got := h.Delay(&hook.UnreachableError{Err: controller.ErrConflict}, 9, rand.Float64); got < time.Hour {
		t.Errorf("no response, with a longest delay of its own: %s", got)
	}
	if got := (&Handler{}).Delay(&hook.UnreachableError{Err: controller.ErrConflict}, 9, rand.Float64); got < UnreachableDelay || got > UnreachableDelay*5/4 {
		t.Errorf("no response: %s", got)
	}
	crashed := &hook.UnreachableError{Err: controller.ErrConflict, Connected: true}
	if got := (&Handler{}).Delay(crashed, 10, rand.Float64); got < LongestDelay {
		t.Errorf("a process that crashes at each call: %s", got)
	}
	if got := h.Delay(&hook.RetryAfterError{After: 7 * time.Second, Err: controller.ErrConflict}, 9, rand.Float64); got != 7*time.Second {
		t.Errorf("requested 7s: %s", got)
	}
}
