package dashboard

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/setpoint-dev/setpoint/internal/dashboard/format"
	"github.com/setpoint-dev/setpoint/internal/dashboard/processes"
	"github.com/setpoint-dev/setpoint/internal/dashboard/userclient"
	"github.com/setpoint-dev/setpoint/internal/dashboard/web"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/object"
)

type kindPage struct {
	object.Kind
	// Namespace, Name and Labels are the filters.
	Namespace, Name, Labels string
	Namespaces              []string
	NamespaceNotFound       bool
	Columns                 []userclient.Column
	// ListView has the filters by state and the order. The API server knows neither, so a list
	// with one of them is read whole and is in memory.
	web.ListView
	Rows []objectRow
	// Controllers are the controllers that manage the kind.
	Controllers []inspect.Controller
	// NewURL is where to create an object; MissingPermission is what that needs. CanDelete
	// reports whether the user may delete some.
	NewURL            string
	MissingPermission string
	CanDelete         bool
	// CanEdit reports whether the user may patch some.
	CanEdit bool
	// NextURL and FirstURL are other pages of the list. Note is a remark about the list.
	NextURL, PreviousURL, FirstURL, Note string
	Remaining                            int64
	// Problem is why the list failed.
	Problem *web.Problem
}

type objectRow struct {
	userclient.Row
	Ref object.Ref
	// Cells are the cells of the visible columns.
	Cells  []string
	States []inspect.ObjectState
}

// worst returns the most severe state; "" if no controller manages the object.
func (r *objectRow) worst() string {
	if len(r.States) == 0 {
		return ""
	}
	return slices.MinFunc(lists.Map(r.States, func(s inspect.ObjectState) string { return string(s.State) }), func(a, b string) int {
		return cmp.Compare(stateRank(a), stateRank(b))
	})
}

// addRows adds rows. Wide columns, of a priority above 0, are left out.
func (p *kindPage) addRows(columns []userclient.Column, rows []userclient.Row) {
	var shown []int
	p.Columns = nil
	for i, column := range columns {
		if column.Priority == 0 && !strings.EqualFold(column.Name, "name") {
			if len(column.Description) > 160 {
				// This is too long for a tooltip.
				column.Description = ""
			}
			shown, p.Columns = append(shown, i), append(p.Columns, column)
		}
	}
	for _, row := range rows {
		p.Rows = append(p.Rows, objectRow{
			Row: row, Ref: object.Ref{Kind: p.Kind, Namespace: row.Namespace, Name: row.Name, UID: row.UID},
			Cells: lists.Map(shown, func(i int) string { return row.Cells[i] }),
		})
	}
}

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
func (req *request) addStates(data *kindPage, all []processes.Info) {
	found, failed := make([][]kindStates, len(all)), make([]error, len(all))
	userclient.InParallel(len(all), func(i int) { found[i], failed[i] = req.fetchKind(data, &all[i]) })
	for i := range all {
		for k := range found[i] {
			each := &found[i][k]
			if each.unwatched != "" {
				data.addUnwatched(&each.controller, each.unwatched)
				continue
			}
			if all[i].Process.IsStandby() && !each.controller.AllReplicas {
				processes.ShowStandby(each.states)
			}
			if each.truncated {
				data.addNote("Only the first " + format.Count(maxWholeRows) + " states of " + each.controller.Name + " are shown.")
			}
			data.joinStates(req.redactStates(each.states))
		}
		if failed[i] == nil || req.Context().Err() != nil {
			continue
		}
		why := ": " + failed[i].Error()
		if errors.Is(failed[i], context.DeadlineExceeded) {
			why = " in time"
		}
		data.addNote("States are missing: process " + all[i].Source.Name() + " did not respond" + why + ".")
	}
}

func (p *kindPage) addNote(text string) { p.Note = strings.TrimSpace(p.Note + " " + text) }

// fetchKind returns the states of the objects of the page from a process. After an error they are
// incomplete.
func (req *request) fetchKind(data *kindPage, t *processes.Info) ([]kindStates, error) {
	var all []kindStates
	queried := false
	for _, c := range processes.Managing([]processes.Info{*t}, data.Kind) {
		all = append(all, kindStates{controller: c, unwatched: processes.Unwatched(t, &c)})
		queried = queried || all[len(all)-1].unwatched == ""
	}
	if !queried || len(data.Rows) == 0 {
		return all, nil
	}
	return inspect.QueryOne(req.Context(), req.Processes.Timeouts, t.Source,
		func(ctx context.Context, s inspect.Source) ([]kindStates, error) {
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
	all, err := source.Objects(ctx, controller, p.query(min(max(maxStates, first.Matching), maxWholeRows)))
	into.states, into.truncated = all.Objects, all.Matching > maxWholeRows
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

func (req *request) redactStates(states []inspect.ObjectState) []inspect.ObjectState {
	for i := range states {
		states[i] = inspect.RedactState(states[i], req.CanRead)
	}
	return states
}

func (p *kindPage) joinStates(states []inspect.ObjectState) {
	type key struct{ namespace, name string }
	by := map[key]inspect.ObjectState{}
	for _, state := range states {
		if state.GroupKind() == p.GroupKind() {
			by[key{state.Namespace, state.Name}] = state
		}
	}
	for i := range p.Rows {
		row := &p.Rows[i]
		if state, ok := by[key{row.Namespace, row.Name}]; ok {
			row.States = append(row.States, state)
		}
	}
}

const pageRows = 100
