package dashboard

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/setpoint-dev/setpoint/internal/dashboard/format"
	"github.com/setpoint-dev/setpoint/internal/dashboard/userclient"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// Timeouts of processes. Plans take longer, since they call hooks.
const (
	sourceTimeout = 5 * time.Second
	planTimeout   = 70 * time.Second
)

// processInfo is the response of one process.
type processInfo struct {
	Source      inspect.Source
	Process     inspect.Process
	Controllers []inspect.Controller
	// Err is why the process is unavailable.
	Err error
	// Lost says why the rest is old; nil if it is not.
	Lost *lostProcess
}

// sources returns the processes, and those that have ended.
func (s *Server) sources(ctx context.Context) []inspect.Source {
	return s.memory.with(s.options.Sources(ctx))
}

// unavailableMessage returns the message for an unavailable process.
func unavailableMessage(of inspect.Source, err error) string {
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

// fetchProcesses fetches all processes in parallel.
func (req *request) fetchProcesses() []processInfo {
	results := inspect.QueryAll(req.context(), req.timeouts, req.sources(req.context()), fetchProcess)
	all := make([]processInfo, len(results))
	for i := range results {
		all[i] = req.remember(&results[i])
	}
	return slices.DeleteFunc(all, func(t processInfo) bool {
		_, ended := t.Source.(*lostSource)
		return ended && req.memory.recall(t.Source.Name()) == nil // It runs under another name.
	})
}

// fetchOne fetches a process. Without a response it returns what the process said last, if that is
// known.
func (req *request) fetchOne(source inspect.Source) (processInfo, error) {
	value, err := inspect.QueryOne(req.context(), req.timeouts, source, fetchProcess)
	t := req.remember(&inspect.Result[processInfo]{Source: source, Value: value, Err: err})
	if t.Err != nil && len(t.Controllers) == 0 {
		return t, t.Err
	}
	return t, nil
}

// remember remembers the response of a process, or adds what it said last.
func (req *request) remember(result *inspect.Result[processInfo]) processInfo {
	t := result.Value
	t.Source, t.Err = result.Source, result.Err
	_, ended := t.Source.(*lostSource)
	switch {
	case ended:
		t.Lost = req.memory.whyLost(t.Source.Name(), nil)
	case t.Err == nil:
		req.memory.note(&t)
	case req.context().Err() == nil:
		t.Lost = req.memory.whyLost(t.Source.Name(), t.Err)
		if last := req.memory.recall(t.Source.Name()); last != nil {
			t.Process, t.Controllers = last.process, slices.Clone(last.controllers)
		}
	}
	return t
}

func fetchProcess(ctx context.Context, source inspect.Source) (t processInfo, err error) {
	if t.Process, err = source.Process(ctx); err != nil {
		return t, err
	}
	t.Controllers, err = source.Controllers(ctx)
	return t, err
}

// source returns a process by name.
func (req *request) source(process string) (inspect.Source, error) {
	for _, source := range req.sources(req.context()) {
		if source.Name() == process {
			return source, nil
		}
	}
	return nil, notFound("Process %s is unknown or has stopped.", process)
}

// fetchAll calls all processes in parallel, and returns messages for those that are
// unavailable.
func fetchAll[T any](req *request, call func(context.Context, inspect.Source) (T, error)) (found []T, missing []string) {
	for _, a := range inspect.QueryAll(req.context(), req.timeouts, req.sources(req.context()), call) {
		switch {
		case a.Err == nil:
			found = append(found, a.Value)
		case !errors.Is(a.Err, failure.ErrNotFound):
			missing = append(missing, unavailableMessage(a.Source, a.Err))
		}
	}
	return found, missing
}

// controllersOf fetches the controllers of a process.
func (req *request) controllersOf(source inspect.Source) ([]inspect.Controller, error) {
	return inspect.QueryOne(req.context(), req.timeouts, source, func(ctx context.Context, s inspect.Source) ([]inspect.Controller, error) {
		return s.Controllers(ctx)
	})
}

// objectStates returns the states of an object as far as the user may read them, and messages
// for unavailable processes.
func (req *request) objectStates(ref object.Ref) (states []inspect.ObjectState, missing []string) {
	found, missing := fetchAll(req, func(ctx context.Context, s inspect.Source) ([]inspect.ObjectState,
		error) {
		return s.States(ctx, ref)
	})
	for _, state := range slices.Concat(found...) {
		states = append(states, inspect.RedactState(state, req.canRead))
	}
	return states, missing
}

// processState is the state of a process that does not respond.
type processState string

// The states of a process that does not respond.
const (
	// processCrashed: the process exited by itself or was killed.
	processCrashed processState = "Crashed"
	// processEnded: the process is no longer there; why is unknown.
	processEnded processState = "Ended"
	// processUnreachable: the process is there and does not respond.
	processUnreachable processState = "No connection"
)

// Exit is the end of a process that its supervisor knows of.
type Exit struct {
	Process string
	// Text says how it ended, such as "exit status 2".
	Text string
	At   time.Time
}

// lostProcess says why what is known of a process is old.
type lostProcess struct {
	State processState
	// Seen is when it last responded; zero for never. Reason is the error or the exit.
	Seen   time.Time
	Reason string
}

// Tone returns the CSS class of the state.
func (l *lostProcess) Tone() string {
	if l.State == processEnded {
		return "neutral"
	}
	return "bad"
}

// Hint says what to do.
func (l *lostProcess) Hint() string {
	switch l.State {
	case processCrashed:
		return "What it does waits until it runs again: see its log."
	case processEnded:
		return "Its objects are not reconciled until it runs again. Start it, or leave it off: the objects stay as they are."
	}
	return "Check that it runs, and its log."
}

// maxLost is how many processes are remembered after their end, and lostMemory how long.
const (
	maxLost    = 32
	lostMemory = 24 * time.Hour
)

// processMemory remembers what each process said last. One that ends or does not respond remains
// on the pages, in that state.
type processMemory struct {
	exits func() []Exit
	now   func() time.Time

	mu   sync.Mutex
	last map[string]*lostSource
}

// note remembers the response of a process. The same process may have had another name, which
// depends on the others that run.
func (m *processMemory) note(t *processInfo) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.last == nil {
		m.last = map[string]*lostSource{}
	}
	for name, each := range m.last {
		if started := t.Process.Started; !started.IsZero() && started.Equal(each.process.Started) &&
			each.process.Instance == t.Process.Instance {
			delete(m.last, name)
		}
	}
	m.last[t.Source.Name()] = &lostSource{name: t.Source.Name(), process: t.Process, controllers: slices.Clone(t.Controllers),
		seen: m.now()}
}

// recall returns what a process said last; nil if that is unknown.
func (m *processMemory) recall(name string) *lostSource {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.last[name]
}

// with adds the processes that have ended to those that run.
func (m *processMemory) with(running []inspect.Source) []inspect.Source {
	exits := m.exited()
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, exit := range exits {
		if m.last[exit.Process] == nil {
			if m.last == nil {
				m.last = map[string]*lostSource{}
			}
			m.last[exit.Process] = &lostSource{name: exit.Process, process: inspect.Process{Name: exit.Process}}
		}
	}
	var lost []*lostSource
	for name, each := range m.last {
		switch {
		case slices.ContainsFunc(running, func(s inspect.Source) bool { return s.Name() == name }):
		case m.now().Sub(each.seen) > lostMemory && !slices.ContainsFunc(exits, func(e Exit) bool { return e.Process == name }):
			delete(m.last, name)
		default:
			lost = append(lost, each)
		}
	}
	slices.SortFunc(lost, func(a, b *lostSource) int { return cmp.Or(b.seen.Compare(a.seen), strings.Compare(a.name, b.name)) })
	all := slices.Clone(running)
	for i, each := range lost {
		if i >= maxLost {
			delete(m.last, each.name)
			continue
		}
		all = append(all, each)
	}
	return all
}

func (m *processMemory) exited() []Exit {
	if m.exits == nil {
		return nil
	}
	return m.exits()
}

// whyLost returns why a process does not respond. err is its error; nil if it has ended.
func (m *processMemory) whyLost(name string, err error) *lostProcess {
	l := &lostProcess{State: processEnded}
	if last := m.recall(name); last != nil {
		l.Seen = last.seen
	}
	if err != nil {
		l.State, l.Reason = processUnreachable, err.Error()
	}
	for _, exit := range m.exited() {
		if exit.Process == name {
			l.State, l.Reason, l.Seen = processCrashed, exit.Text, exit.At
		}
	}
	return l
}

// lostSource is a process that has ended, with what it said last.
type lostSource struct {
	name        string
	process     inspect.Process
	controllers []inspect.Controller
	seen        time.Time
}

// errEnded means that a process has ended.
func (s *lostSource) errEnded() error {
	return fmt.Errorf("the process %s has ended: %w", s.name, failure.ErrNotFound)
}

// Name implements inspect.Source.
func (s *lostSource) Name() string { return s.name }

// Process implements inspect.Source.
func (s *lostSource) Process(context.Context) (inspect.Process, error) { return s.process, nil }

// Controllers implements inspect.Source.
func (s *lostSource) Controllers(context.Context) ([]inspect.Controller, error) {
	return slices.Clone(s.controllers), nil
}

// Objects implements inspect.Source.
func (s *lostSource) Objects(context.Context, string, inspect.Query) (inspect.Page, error) {
	return inspect.Page{}, s.errEnded()
}

// States implements inspect.Source. The controllers that managed the kind of an object are known.
func (s *lostSource) States(_ context.Context, ref object.Ref) (all []inspect.ObjectState, _ error) {
	for i := range s.controllers {
		if c := &s.controllers[i]; c.Manages(ref.Kind) && !c.AllReplicas {
			all = append(all, inspect.ObjectState{Ref: ref, State: inspect.StateUnknown, Controller: c.Name, Process: s.name,
				Suspended: c.Suspended})
		}
	}
	return all, nil
}

// Runs implements inspect.Source.
func (s *lostSource) Runs(context.Context, object.Ref, int) ([]inspect.Run, error) { return nil, nil }

// Reviews implements inspect.Source.
func (s *lostSource) Reviews(context.Context, string, bool) ([]inspect.Run, error) {
	return nil, nil
}

// Run implements inspect.Source.
func (s *lostSource) Run(context.Context, uint64) (inspect.Run, error) {
	return inspect.Run{}, s.errEnded()
}

// Plan implements inspect.Source.
func (s *lostSource) Plan(context.Context, string, object.Ref, json.RawMessage) (inspect.Plan, error) {
	return inspect.Plan{}, s.errEnded()
}

// Requests implements inspect.Source.
func (s *lostSource) Requests(context.Context) (inspect.Requests, error) {
	return inspect.Requests{}, s.errEnded()
}

// SetLogLevel implements inspect.Source.
func (s *lostSource) SetLogLevel(context.Context, string) error { return s.errEnded() }

// Diagnostic implements inspect.Source.
func (s *lostSource) Diagnostic(context.Context, string) ([]byte, error) { return nil, s.errEnded() }

// Await implements inspect.Source. Nothing changes any more.
func (s *lostSource) Await(ctx context.Context, _ uint64) (uint64, error) {
	<-ctx.Done()
	return 0, ctx.Err()
}

// apiProbe checks whether the API server responds. All pages share one check per interval.
type apiProbe struct {
	cluster *userclient.Cluster
	now     func() time.Time

	mu        sync.Mutex
	checkedAt time.Time
	err       error
}

// isDown reports whether the API server does not respond.
func (p *apiProbe) isDown(ctx context.Context) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.now().Sub(p.checkedAt) >= pollInterval*9/10 {
		// Other pages use the result too, so it must not depend on this request.
		p.err = p.cluster.Ping(context.WithoutCancel(ctx))
		p.checkedAt = p.now()
	}
	return errors.Is(p.err, userclient.ErrUnreachable)
}
