package processes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/setpoint-dev/setpoint/internal/cli/command"
	"github.com/setpoint-dev/setpoint/internal/cli/output"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// Controllers returns the controllers of all processes.
func (r *Session) Controllers(ctx context.Context) ([]inspect.Controller, error) {
	run, err := r.RunningControllers(ctx)
	return lists.Map(run, func(c RunningController) inspect.Controller { return c.Controller }), err
}

// RunningController is a controller and the process that runs it.
type RunningController struct {
	inspect.Controller
	Source inspect.Source
	// standby reports that another process is the leader.
	standby bool
}

// RunningControllers returns the controllers of all processes. A controller of the leader
// hides those of its standbys.
func (r *Session) RunningControllers(ctx context.Context) ([]RunningController, error) {
	all, err := r.ControllersOfReplicas(ctx)
	leads := map[string]bool{}
	for _, one := range all {
		leads[one.Name] = leads[one.Name] || !one.standby
	}
	return slices.DeleteFunc(all, func(one RunningController) bool { return one.standby && leads[one.Name] }), err
}

// ControllersOfReplicas is RunningControllers with those of all standbys.
func (r *Session) ControllersOfReplicas(ctx context.Context) (all []RunningController, err error) {
	results, err := QueryAll(ctx, r, func(ctx context.Context, s inspect.Source) ([]RunningController, error) {
		controllers, err := s.Controllers(ctx)
		if err != nil {
			return nil, err
		}
		process, err := s.Process(ctx)
		standby := err == nil && process.IsStandby()
		return lists.Map(controllers, func(c inspect.Controller) RunningController { return RunningController{c, s, standby} }), nil
	})
	for _, a := range results {
		all = append(all, a.Value...)
	}
	return all, err
}

// lookup is a search for the controller that a user named, perhaps with one of its objects.
type lookup struct {
	word  string
	found []RunningController
	// known are the names of the visible controllers, hidden is the number of others.
	known  []string
	hidden int
}

// Controller returns the controller of that name and its process, if the user may see the
// controller or, if object is not "", that object.
func (r *Session) Controller(ctx context.Context, name, object string) (inspect.Controller, inspect.Source, error) {
	run, err := r.RunningControllers(ctx)
	if err != nil {
		return inspect.Controller{}, nil, err
	}
	word, err := r.controllerName(ctx, name, run)
	if err != nil {
		return inspect.Controller{}, nil, err
	}
	l, err := r.lookup(ctx, word, object, run)
	switch {
	case err != nil:
		return inspect.Controller{}, nil, err
	case len(l.found) == 1:
		return l.found[0].Controller, l.found[0].Source, nil
	}
	return inspect.Controller{}, nil, l.refusal()
}

// CheckController checks that a process has a controller of that name, if there is one, and that the user may see it.
func (r *Session) CheckController(ctx context.Context, name, object string) error {
	if name == "" {
		return nil
	}
	run, err := r.RunningControllers(ctx)
	if err != nil {
		return err
	}
	l, err := r.lookup(ctx, name, object, run)
	if err == nil && len(l.found) == 0 {
		err = l.refusal()
	}
	return err
}

// lookup searches for a controller among those that run.
func (r *Session) lookup(ctx context.Context, word, object string, run []RunningController) (*lookup, error) {
	l := &lookup{word: word}
	for _, each := range run {
		seen := inspect.CanView(&each.Controller, r.Client.AccessCheck(ctx))
		if seen {
			l.known = append(l.known, each.Name)
		} else {
			l.hidden++
		}
		if matchesController(word, each.Controller) && (seen || r.Client.CanSeeAny(ctx, each.Kinds, r.Target.Namespace, object)) {
			l.found = append(l.found, each)
		}
	}
	return l, r.Client.TakeErr()
}

// refusal explains why not exactly one controller matched.
func (l *lookup) refusal() error {
	switch {
	case len(l.found) > 1:
		names := lists.Map(l.found, func(c RunningController) string { return c.Name + " in " + c.Source.Name() })
		return command.WithHint(fmt.Errorf("controller %q is ambiguous", l.word), "use one of "+output.Clean(strings.Join(names, ", "))+
			"; --process selects a process")
	case l.hidden > 0:
		hint := fmt.Sprintf("there %s, and %d that you cannot get; -n NAMESPACE finds those whose objects you can list there",
			thereAre(l.known), l.hidden)
		return command.WithHint(fmt.Errorf("no controller %q that you can get", l.word), hint)
	}
	return command.WithHint(fmt.Errorf("no controller %q", l.word), "there "+thereAre(l.known))
}

// thereAre returns a list for a sentence that starts with "there".
func thereAre(names []string) string {
	if len(names) == 0 {
		return "are none"
	}
	return "are " + output.Clean(strings.Join(names, ", "))
}

// controllerName returns the name of the controller that KIND/NAME declares, or word
// itself.
func (r *Session) controllerName(ctx context.Context, word string, run []RunningController) (string, error) {
	isName := func(c RunningController) bool { return c.Name == word }
	if slices.ContainsFunc(run, isName) {
		return word, nil // Names of controllers in Go programs contain a slash too.
	}
	kind, name, is, err := r.Client.ControllerArg(ctx, word)
	switch {
	case errors.Is(err, failure.ErrNotFound):
		return word, nil
	case err != nil || !is:
		return word, err
	}
	return kind.Name + "/" + name, nil
}

// matchesController reports whether word is the name of a controller, or the part of it
// after the slash.
func matchesController(word string, c inspect.Controller) bool {
	_, last, split := strings.Cut(c.Name, "/")
	return word == c.Name || split && word == last
}

// WarnStandby warns about standby processes and names their leader.
func (r *Session) WarnStandby(ctx context.Context) {
	call := func(ctx context.Context, s inspect.Source) (inspect.Process, error) { return s.Process(ctx) }
	for _, a := range inspect.QueryAll(ctx, r.Timeouts, r.Sources, call) {
		if a.Err == nil && a.Value.IsStandby() {
			fmt.Fprintln(r.Stderr, "warning:", output.Clean(a.Value.Caveat()))
		}
	}
}

// States returns the states of an object that the user may read.
func (r *Session) States(ctx context.Context, ref object.Ref) (all []inspect.ObjectState, err error) {
	results, err := QueryAll(ctx, r, func(ctx context.Context, s inspect.Source) ([]inspect.ObjectState,
		error) {
		return s.States(ctx, ref)
	})
	for _, a := range results {
		for _, state := range a.Value {
			all = append(all, inspect.RedactState(state, r.Client.CanRead(ctx)))
		}
	}
	return all, err
}

// ShortName returns the part of a controller's name after the slash, if no other controller
// matches it, else the whole name. Commands accept both.
func ShortName(name string, all []inspect.Controller) string {
	_, last, split := strings.Cut(name, "/")
	matchesOther := func(c inspect.Controller) bool { return c.Name != name && matchesController(last, c) }
	if !split || slices.ContainsFunc(all, matchesOther) {
		return name
	}
	return last
}
