// Package processes fetches what processes say of themselves and of their controllers, and remembers what they said last.
//
// It shows nothing: pages are in package dashboard.
package processes

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/setpoint-dev/setpoint/internal/dashboard/format"
	"github.com/setpoint-dev/setpoint/internal/dashboard/userclient"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/recording"
)

const sourceTimeout = 5 * time.Second

// Info is the response of one process.
type Info struct {
	Source      inspect.Source
	Process     inspect.Process
	Controllers []inspect.Controller
	// Err is why the process is unavailable.
	Err error
	// Lost says why the rest is old; nil if it is not.
	Lost *Lost
}

// Set is all processes that the dashboard shows. It remembers what each said last: one that ends or does not respond remains on
// the pages, in that state.
type Set struct {
	// Running returns the processes that run. It is called for each page, must not block, and returns the same Source for
	// the same process each time.
	Running func(context.Context) []inspect.Source
	// Timeouts limit how long to wait for processes.
	Timeouts *inspect.Timeouts

	exits func() []Exit
	now   func() time.Time

	mu   sync.Mutex
	last map[string]*ended
}

// New returns a set of processes. Exits returns those whose supervisor knows that they ended; it may be nil.
func New(running func(context.Context) []inspect.Source, exits func() []Exit, now func() time.Time) *Set {
	if exits == nil {
		exits = func() []Exit { return nil }
	}
	return &Set{
		Running: running, Timeouts: inspect.NewTimeouts(sourceTimeout), exits: exits, now: now, last: map[string]*ended{},
	}
}

// Source returns a process by name; false if it is unknown.
func (p *Set) Source(ctx context.Context, name string) (inspect.Source, bool) {
	all := p.Sources(ctx)
	at := slices.IndexFunc(all, func(s inspect.Source) bool { return s.Name() == name })
	if at < 0 {
		return nil, false
	}
	return all[at], true
}

// Unavailable returns the message for an unavailable process.
func Unavailable(of inspect.Source, err error) string {
	text := "Process " + of.Name() + " did not respond in time."
	switch {
	case errors.Is(err, context.DeadlineExceeded):
	case strings.HasPrefix(err.Error(), "the process "+of.Name()):
		text = format.Capitalize(err.Error()) + "."
	default:
		text = "Process " + of.Name() + " did not respond: " + err.Error() + "."
	}
	return text + " What it said last is shown. Check that it runs, and its log."
}

// Fetch fetches all processes in parallel.
func (p *Set) Fetch(ctx context.Context) []Info {
	results := inspect.QueryAll(ctx, p.Timeouts, p.Sources(ctx), fetchProcess)
	all := make([]Info, len(results))
	for i := range results {
		all[i] = p.remember(ctx, &results[i])
	}
	return slices.DeleteFunc(all, func(t Info) bool {
		_, ended := t.Source.(*ended)
		return ended && p.recall(t.Source.Name()) == nil // It runs under another name.
	})
}

// FetchOne fetches a process. Without a response it returns what the process said last, if that is known.
func (p *Set) FetchOne(ctx context.Context, source inspect.Source) (Info, error) {
	value, err := inspect.QueryOne(ctx, p.Timeouts, source, fetchProcess)
	t := p.remember(ctx, &inspect.Result[Info]{Source: source, Value: value, Err: err})
	if t.Err != nil && len(t.Controllers) == 0 {
		return t, t.Err
	}
	return t, nil
}

// remember remembers the response of a process, or adds what it said last.
func (p *Set) remember(ctx context.Context, result *inspect.Result[Info]) Info {
	t := result.Value
	t.Source, t.Err = result.Source, result.Err
	_, ended := t.Source.(*ended)
	switch {
	case ended:
		t.Lost = p.whyLost(t.Source.Name(), nil)
	case t.Err == nil:
		p.note(&t)
	case ctx.Err() == nil:
		t.Lost = p.whyLost(t.Source.Name(), t.Err)
		if last := p.recall(t.Source.Name()); last != nil {
			t.Process, t.Controllers = last.process, slices.Clone(last.controllers)
		}
	}
	return t
}

func fetchProcess(ctx context.Context, source inspect.Source) (t Info, err error) {
	if t.Process, err = source.Process(ctx); err != nil {
		return t, err
	}
	t.Controllers, err = source.Controllers(ctx)
	return t, err
}

// FetchAll calls all processes in parallel, and returns messages for those that are unavailable.
func FetchAll[T any](ctx context.Context, p *Set, call func(context.Context, inspect.Source) (T, error)) (found []T, missing []string) {
	for _, a := range inspect.QueryAll(ctx, p.Timeouts, p.Sources(ctx), call) {
		switch {
		case a.Err == nil:
			found = append(found, a.Value)
		case !errors.Is(a.Err, failure.ErrNotFound):
			missing = append(missing, Unavailable(a.Source, a.Err))
		}
	}
	return found, missing
}

// The states of a process that does not respond, and of all that it reconciles.
const (
	// Crashed: the process exited by itself or was killed.
	Crashed inspect.State = "Crashed"
	// Ended: the process is no longer there; why is unknown.
	Ended inspect.State = "Ended"
	// Unreachable: the process is there and does not respond.
	Unreachable inspect.State = "No connection"
)

// Exit is the end of a process that its supervisor knows of.
type Exit struct {
	Process string
	// Text says how it ended, such as "exit status 2".
	Text string
	At   time.Time
}

// Lost says why what is known of a process is old.
type Lost struct {
	State inspect.State
	// Seen is when it last responded; zero for never. Reason is the error or the exit.
	Seen   time.Time
	Reason string
}

// Tone returns the CSS class of the state.
func (l *Lost) Tone() string {
	if l.State == Ended {
		return "neutral"
	}
	return "bad"
}

// Hint says what to do.
func (l *Lost) Hint() string {
	switch l.State {
	case Crashed:
		return "What it does waits until it runs again: see its log."
	case Ended:
		return "Its objects are not reconciled until it runs again. Start it, or leave it off: the objects stay as they are."
	}
	return "Check that it runs, and its log."
}

// maxLost is how many processes are remembered after their end, and lostMemory how long.
const (
	maxLost    = 32
	lostMemory = 24 * time.Hour
)

// note remembers the response of a process. The same process may have had another name, which
// depends on the others that run.
func (p *Set) note(t *Info) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for name, each := range p.last {
		if started := t.Process.Started; !started.IsZero() && started.Equal(each.process.Started) &&
			each.process.Instance == t.Process.Instance {
			delete(p.last, name)
		}
	}
	p.last[t.Source.Name()] = &ended{name: t.Source.Name(), process: t.Process, controllers: slices.Clone(t.Controllers),
		seen: p.now()}
}

// recall returns what a process said last; nil if that is unknown.
func (p *Set) recall(name string) *ended {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.last[name]
}

// Sources returns the processes, and those that have ended.
func (p *Set) Sources(ctx context.Context) []inspect.Source {
	running := p.Running(ctx)
	exits := p.exits()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, exit := range exits {
		if p.last[exit.Process] == nil {
			p.last[exit.Process] = &ended{name: exit.Process, process: inspect.Process{Name: exit.Process}}
		}
	}
	var lost []*ended
	for name, each := range p.last {
		switch {
		case slices.ContainsFunc(running, func(s inspect.Source) bool { return s.Name() == name }):
		case p.now().Sub(each.seen) > lostMemory && !slices.ContainsFunc(exits, func(e Exit) bool { return e.Process == name }):
			delete(p.last, name)
		default:
			lost = append(lost, each)
		}
	}
	slices.SortFunc(lost, func(a, b *ended) int { return cmp.Or(b.seen.Compare(a.seen), strings.Compare(a.name, b.name)) })
	all := slices.Clone(running)
	for i, each := range lost {
		if i >= maxLost {
			delete(p.last, each.name)
			continue
		}
		all = append(all, each)
	}
	return all
}

// whyLost returns why a process does not respond. err is its error; nil if it has ended.
func (p *Set) whyLost(name string, err error) *Lost {
	l := &Lost{State: Ended}
	if last := p.recall(name); last != nil {
		l.Seen = last.seen
	}
	if err != nil {
		l.State, l.Reason = Unreachable, err.Error()
	}
	for _, exit := range p.exits() {
		if exit.Process == name {
			l.State, l.Reason, l.Seen = Crashed, exit.Text, exit.At
		}
	}
	return l
}

// ended is a process that has ended, with what it said last.
type ended struct {
	name        string
	process     inspect.Process
	controllers []inspect.Controller
	seen        time.Time
}

func (s *ended) errEnded() error {
	return fmt.Errorf("the process %s has ended: %w", s.name, failure.ErrNotFound)
}

func (s *ended) Name() string { return s.name }

func (s *ended) Process(context.Context) (inspect.Process, error) { return s.process, nil }

func (s *ended) Controllers(context.Context) ([]inspect.Controller, error) {
	return slices.Clone(s.controllers), nil
}

// States implements inspect.Source. The controllers that managed the kind of an object are known.
func (s *ended) States(_ context.Context, ref object.Ref) (all []inspect.ObjectState, _ error) {
	for i := range s.controllers {
		if c := &s.controllers[i]; c.Manages(ref.Kind) && !c.AllReplicas {
			all = append(all, inspect.ObjectState{Ref: ref, State: inspect.StateUnknown, Controller: c.Name, Process: s.name,
				Suspended: c.Suspended})
		}
	}
	return all, nil
}

func (s *ended) Runs(context.Context, object.Ref, int) ([]inspect.Run, error) { return nil, nil }

func (s *ended) Reviews(context.Context, string, bool) ([]inspect.Run, error) { return nil, nil }

func (s *ended) Objects(context.Context, string, inspect.Query) (page inspect.Page, _ error) {
	return page, s.errEnded()
}

func (s *ended) Run(context.Context, uint64, bool) (run inspect.Run, _ error) {
	return run, s.errEnded()
}

func (s *ended) Plan(context.Context, string, object.Ref, json.RawMessage) (plan inspect.Plan, _ error) {
	return plan, s.errEnded()
}

func (s *ended) Record(context.Context, recording.Filter, io.Writer) error { return s.errEnded() }

func (s *ended) SetLogLevel(context.Context, string) error { return s.errEnded() }

func (s *ended) Diagnostic(context.Context, string) ([]byte, error) { return nil, s.errEnded() }

// Await implements inspect.Source. Nothing changes any more.
func (s *ended) Await(ctx context.Context, _ uint64) (uint64, error) {
	<-ctx.Done()
	return 0, ctx.Err()
}

// The states of controllers that do not run, and of their objects. Only the dashboard has them: a process reports StateUnknown.
const (
	// Suspended: the spec suspends the controller, which watches nothing.
	Suspended inspect.State = "Suspended"
	// Standby: another replica leads, and reconciles the objects.
	Standby inspect.State = "Standby"
)

// Unwatched returns the state of objects whose controller watches nothing; "" if it does.
func Unwatched(t *Info, c *inspect.Controller) inspect.State {
	switch {
	case c.Suspended:
		return Suspended
	case t.Lost != nil:
		return t.Lost.State
	}
	return ""
}

// ObjectStates returns the states to filter by.
func ObjectStates() []string {
	all := append(inspect.States(), Standby, Suspended, Crashed, Unreachable, Ended)
	return lists.Map(all, func(s inspect.State) string { return string(s) })
}

// ShowStandby shows states that a standby does not know as such.
func ShowStandby(all []inspect.ObjectState) {
	for i := range all {
		if all[i].State == inspect.StateUnknown {
			all[i].State = Standby
		}
	}
}

// Managing returns the controllers that manage a kind.
func Managing(all []Info, kind object.Kind) []inspect.Controller {
	return lists.FlatMap(all, func(t Info) []inspect.Controller {
		return lists.Filter(t.Controllers, func(c inspect.Controller) bool { return c.Manages(kind) })
	})
}

// MayManage reports whether a process that does not respond may have a controller of a kind.
func (t *Info) MayManage(kind object.Kind) bool {
	manages := func(c inspect.Controller) bool { return c.Manages(kind) }
	return t.Lost != nil && (len(t.Controllers) == 0 || slices.ContainsFunc(t.Controllers, manages))
}

// Visible returns processes with the controllers that a user may see.
func Visible(all []Info, can inspect.AccessCheck) []Info {
	found := make([]Info, len(all))
	for i, t := range all {
		found[i] = t
		found[i].Controllers = userclient.FilterAllowed(t.Controllers, func(c *inspect.Controller) bool {
			if !inspect.CanView(c, can) {
				return false
			}
			*c = inspect.RedactController(*c, can)
			return true
		})
	}
	return found
}

// planner is a controller that may plan for an object, in its process.
type planner struct {
	Source     inspect.Source
	Controller inspect.Controller
}

// PlannersOf returns the controllers of a kind that the user may see, each in one process, and
// the number of the others.
func PlannersOf(known []Info, kind object.Kind, can inspect.AccessCheck) (all []planner, hidden int) {
	seen := map[string]bool{}
	standby := func(t Info) bool { return t.Process.IsStandby() } // A leader knows more.
	leaders := slices.DeleteFunc(slices.Clone(known), standby)
	for _, t := range append(leaders, lists.Filter(known, standby)...) {
		if t.Lost != nil {
			continue
		}
		for _, c := range t.Controllers {
			switch {
			case seen[c.Name] || c.AllReplicas || !c.Manages(kind):
				continue
			case inspect.CanView(&c, can):
				all = append(all, planner{t.Source, c})
			default:
				hidden++
			}
			seen[c.Name] = true
		}
	}
	return all, hidden
}
