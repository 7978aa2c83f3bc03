package dashboard

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

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
		text = capitalize(err.Error()) + "."
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
