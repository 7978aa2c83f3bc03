package dashboard

import (
	"context"
	"errors"
	"strings"

	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/inspect"
)

// maxStates is how many states to fetch at once; beyond that, each object is fetched.
const maxStates = 1000

// kindStates are the states of the objects of one controller.
type kindStates struct {
	controller inspect.Controller
	// unwatched is the state of all its objects if it watches none.
	unwatched inspect.State
	states    []inspect.ObjectState
	// truncated reports that it has more than were fetched.
	truncated bool
}

// addStates adds the states of the objects, and notes which are missing. It queries all processes
// at once, each with its own timeout.
func (req *request) addStates(data *kindPage, all []processInfo) {
	found, failed := make([][]kindStates, len(all)), make([]error, len(all))
	inParallel(len(all), maxParallelReviews, func(i int) { found[i], failed[i] = req.fetchKind(data, &all[i]) })
	for i := range all {
		for k := range found[i] {
			each := &found[i][k]
			if each.unwatched != "" {
				data.addUnwatched(&each.controller, each.unwatched)
				continue
			}
			if all[i].Process.IsStandby() && !each.controller.AllReplicas {
				showStandby(each.states)
			}
			if each.truncated {
				data.addNote("Only the first " + formatCount(maxSortedRows) + " states of " + each.controller.Name + " are shown.")
			}
			data.joinStates(req.redactStates(each.states))
		}
		if failed[i] != nil && req.context().Err() == nil {
			data.addNote(missingStatesMessage(all[i].Source, failed[i]))
		}
	}
}

// missingStatesMessage says why states of a process are missing.
func missingStatesMessage(of inspect.Source, err error) string {
	if errors.Is(err, context.DeadlineExceeded) {
		return "States are missing: process " + of.Name() + " did not respond in time."
	}
	return "States are missing: process " + of.Name() + " did not respond: " + err.Error() + "."
}

// addNote adds a remark about the list.
func (p *kindPage) addNote(text string) { p.Note = strings.TrimSpace(p.Note + " " + text) }

// fetchKind returns the states of the objects of the page from a process. After an error they are
// incomplete.
func (req *request) fetchKind(data *kindPage, t *processInfo) ([]kindStates, error) {
	var all []kindStates
	queried := false
	for _, c := range managingControllers([]processInfo{*t}, data.Kind) {
		all = append(all, kindStates{controller: c, unwatched: unwatchedState(t, &c)})
		queried = queried || all[len(all)-1].unwatched == ""
	}
	if !queried || len(data.Rows) == 0 {
		return all, nil
	}
	return inspect.QueryOne(req.context(), req.timeouts, t.Source, func(ctx context.Context, s inspect.Source) ([]kindStates, error) {
		var failed error
		for i := range all {
			if all[i].unwatched != "" {
				continue
			}
			err := data.fetchStates(ctx, s, &all[i])
			if failed == nil && !errors.Is(err, failure.ErrNotFound) { // Another process has the controller now.
				failed = err
			}
		}
		return all, failed
	})
}

// query selects the objects of the page.
func (p *kindPage) query(limit int) inspect.Query {
	return inspect.Query{Group: p.Group, Kind: p.Kind.Kind, Namespace: p.Namespace, Sort: "name", Limit: limit}
}

// fetchStates fetches the states of the objects of a controller. It counts them first.
func (p *kindPage) fetchStates(ctx context.Context, source inspect.Source, into *kindStates) error {
	controller := into.controller.Name
	first, err := source.Objects(ctx, controller, p.query(1))
	if err != nil || first.Matching <= len(first.Objects) {
		into.states = first.Objects
		return err
	}
	if first.Matching > maxStates && len(p.Rows) <= pageRows {
		into.states, err = fetchEach(ctx, source, controller, p.Rows)
		return err
	}
	all, err := source.Objects(ctx, controller, p.query(min(max(maxStates, first.Matching), maxSortedRows)))
	into.states, into.truncated = all.Objects, all.Matching > maxSortedRows
	return err
}

// fetchEach fetches the states of each object. After an error they are incomplete.
func fetchEach(ctx context.Context, source inspect.Source, controller string, rows []objectRow) (found []inspect.ObjectState, err error) {
	for i := range rows {
		states, err := source.States(ctx, rows[i].Ref)
		if err != nil && !errors.Is(err, failure.ErrNotFound) {
			return found, err
		}
		for _, state := range states {
			if state.Controller == controller {
				found = append(found, state)
			}
		}
	}
	return found, nil
}

// addUnwatched adds the state of all objects of a controller that watches none.
func (p *kindPage) addUnwatched(c *inspect.Controller, state inspect.State) {
	for i := range p.Rows {
		p.Rows[i].States = append(p.Rows[i].States, inspect.ObjectState{Ref: p.Rows[i].Ref, State: state, Controller: c.Name,
			Process: c.Process})
	}
}

// redactStates removes what the user may not read.
func (req *request) redactStates(states []inspect.ObjectState) []inspect.ObjectState {
	for i := range states {
		states[i] = inspect.RedactState(states[i], req.canRead)
	}
	return states
}

func (p *kindPage) joinStates(states []inspect.ObjectState) {
	type key struct{ namespace, name string }
	by := map[key]inspect.ObjectState{}
	for _, state := range states {
		if state.GroupKind() != p.GroupKind() {
			continue
		}
		by[key{state.Namespace, state.Name}] = state
	}
	for i := range p.Rows {
		row := &p.Rows[i]
		if state, ok := by[key{row.Namespace, row.Name}]; ok {
			row.States = append(row.States, state)
		}
	}
}
