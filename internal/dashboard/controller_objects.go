package dashboard

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-dev/setpoint/internal/dashboard/format"
	"github.com/setpoint-dev/setpoint/internal/dashboard/processes"
	"github.com/setpoint-dev/setpoint/internal/dashboard/userclient"
	"github.com/setpoint-dev/setpoint/internal/dashboard/web"
	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/object"
)

type objectList struct {
	web.ListView
	Objects []inspect.ObjectState
	Query   inspect.Query
	// MissingPermission says what the user needs to see any objects; "" if nothing is missing.
	MissingPermission string
	// Partial reports whether kinds are hidden because the user may not list them.
	Partial bool
	// CanReconcile reports whether the user may patch the objects.
	CanReconcile bool
	// Kinds are the kinds to filter by.
	Kinds []object.Kind
	// Unwatched is the state of all objects that no process watches, such as Suspended. The API server lists them.
	// TooMany reports that it has more than are listed, Problem is why it does not list them.
	Unwatched inspect.State
	TooMany   bool
	Problem   string
}

// listObjects returns the objects that the URL selects and the user may list. If the kinds of a
// controller are unknown, the user may list none.
func (req *request) listObjects(t *processes.Info, c *inspect.Controller) (*objectList, error) {
	list := req.newObjectList()
	for _, kind := range c.Kinds {
		if req.Can("list", kind, list.Query.Namespace, "") {
			list.Kinds = append(list.Kinds, kind)
		}
	}
	list.Partial = len(list.Kinds) < len(c.Kinds)
	switch {
	case len(c.Kinds) == 0:
		return list, nil
	case len(list.Kinds) == 0:
		list.MissingPermission = format.Capitalize(web.Missing("list", c.Kinds[0], list.Query.Namespace))
		return list, nil
	case list.Partial && !list.hasKind(object.Kind{Group: list.Query.Group, Kind: list.Query.Kind}):
		list.Query.Group, list.Query.Kind = list.Kinds[0].Group, list.Kinds[0].Kind
	}
	if list.Unwatched = processes.Unwatched(t, c); list.Unwatched != "" {
		return list, req.listUnwatched(list)
	}
	list.Query.ReadableKinds = inspect.Readable(c.Children, list.Query.Namespace, req.CanRead)
	if err := req.loadObjects(list, t, c); err != nil {
		return list, err
	}
	list.Objects = req.redactStates(list.Objects)
	list.CanReconcile = slices.ContainsFunc(list.Kinds, func(k object.Kind) bool { return req.Can("patch", k, list.Query.Namespace, "") })
	return list, nil
}

// objectSpec is the list of objects. A process compares, filters and sorts them if it watches them.
func objectSpec() *web.ListSpec[inspect.ObjectState] {
	return &web.ListSpec[inspect.ObjectState]{
		Target: "controller", One: "object", More: "objects", Label: "States", States: processes.ObjectStates(), Default: "state",
		State: func(o *inspect.ObjectState) string { return string(o.State) },
		Texts: func(o *inspect.ObjectState) []string { return []string{o.Name, o.Namespace} },
		Columns: []web.ListColumn[inspect.ObjectState]{
			{Name: "Object", Sort: "name",
				Compare: web.CompareText(func(o *inspect.ObjectState) string { return o.Namespace + "/" + o.Name })},
			{Name: "State", Sort: "state", Compare: web.CompareText(func(o *inspect.ObjectState) string { return string(o.State) })},
			{Name: "Children", Sort: "children", Class: "number",
				Compare: web.CompareMost(func(o *inspect.ObjectState) int { return o.Children })},
			{Name: "Last run", Sort: "run", Compare: web.CompareLatest(func(o *inspect.ObjectState) time.Time { return o.Ran })},
			{Name: "Age", Sort: "created", Compare: web.CompareLatest(func(o *inspect.ObjectState) time.Time { return o.Created })},
		},
	}
}

// newObjectList returns the list without its objects.
func (req *request) newObjectList() *objectList {
	spec := objectSpec()
	list := &objectList{ListView: req.NewListView(spec.View())}
	list.Query = inspect.Query{
		Text: list.Text, Namespace: req.Query("ns"), State: inspect.State(list.State),
		Sort: strings.TrimPrefix(list.Sort, spec.Default), Reverse: list.Reverse, Limit: web.PageSize, Offset: list.Offset,
	}
	list.Query.Kind, list.Query.Group, _ = strings.Cut(req.Query("kind"), ".")
	return list
}

// loadObjects takes the page from the process. One beyond the end is the last one.
func (req *request) loadObjects(list *objectList, t *processes.Info, c *inspect.Controller) error {
	if list.Query.State == processes.Standby {
		list.Query.State = inspect.StateUnknown
	}
	page, err := req.fetchObjects(t.Source, c.Name, list.Query)
	if err != nil {
		return err
	}
	list.Total, list.All, list.Matching = page.Total, page.Total, page.Matching
	list.Clamp()
	if list.Offset != list.Query.Offset {
		list.Query.Offset = list.Offset
		if page, err = req.fetchObjects(t.Source, c.Name, list.Query); err != nil {
			return err
		}
	}
	for state, n := range page.States {
		list.Counts[string(state)] = n
	}
	list.Objects = slices.DeleteFunc(page.Objects, func(c inspect.ObjectState) bool { return !list.hasKind(c.Kind) })
	list.Shown = len(list.Objects)
	if t.Process.IsStandby() {
		list.showStandby()
	}
	return nil
}

// showStandby shows the objects of a standby, which knows of no state, as such.
func (l *objectList) showStandby() {
	processes.ShowStandby(l.Objects)
	unknown := string(inspect.StateUnknown)
	l.Counts[string(processes.Standby)] = l.Counts[unknown]
	delete(l.Counts, unknown)
	if l.State == unknown {
		l.State = string(processes.Standby)
	}
}

// listUnwatched lists the objects of a controller that watches nothing from the API server.
func (req *request) listUnwatched(l *objectList) error {
	var all []inspect.ObjectState
	for _, kind := range l.Kinds {
		if l.Query.Kind != "" && (kind.Kind != l.Query.Kind || kind.Group != l.Query.Group) {
			continue
		}
		err := req.API.EachMetadata(req.Context(), kind, l.Query.Namespace, "", func(o *metav1.PartialObjectMetadata) {
			ref := object.Ref{Kind: kind, Namespace: o.Namespace, Name: o.Name, UID: string(o.UID)}
			all = append(all, inspect.ObjectState{Ref: ref, State: l.Unwatched, Created: o.CreationTimestamp.Time,
				Deleting: o.DeletionTimestamp != nil})
		})
		switch {
		case errors.Is(err, userclient.ErrTooMany):
			l.TooMany = true
		case userclient.IsUnreachable(err):
			return err
		case err != nil:
			l.Problem = web.ProblemOf(err).Text
		}
	}
	spec := objectSpec()
	slices.SortStableFunc(all, func(a, b inspect.ObjectState) int { return spec.Columns[0].Compare(&a, &b) })
	page := web.NewList(req.Request, all, spec)
	l.ListView, l.Objects = page.ListView, page.Rows
	return nil
}

func (req *request) fetchObjects(source inspect.Source, controller string, query inspect.Query) (inspect.Page, error) {
	return inspect.QueryOne(req.Context(), req.Processes.Timeouts, source,
		func(ctx context.Context, s inspect.Source) (inspect.Page, error) {
			return s.Objects(ctx, controller, query)
		})
}

// hasKind reports whether the list can be filtered by a kind.
func (l *objectList) hasKind(kind object.Kind) bool {
	return slices.ContainsFunc(l.Kinds, func(k object.Kind) bool { return k.GroupKind() == kind.GroupKind() })
}

type kindOption struct {
	Name, Value string
	Current     bool
}

func (l *objectList) KindOptions() []kindOption {
	return kindOptions(l.Kinds, l.Query.Group, l.Query.Kind)
}

// kindOptions returns kinds to filter by, with their groups where names are ambiguous.
func kindOptions(kinds []object.Kind, group, kind string) []kindOption {
	var choices []kindOption
	for _, each := range kinds {
		choice := kindOption{Name: each.Kind, Value: web.KindValue(each.Group, each.Kind)}
		choice.Current = each.Kind == kind && each.Group == group
		if slices.ContainsFunc(kinds, func(k object.Kind) bool { return k.Kind == each.Kind && k.Group != each.Group }) {
			choice.Name = choice.Value
		}
		choices = append(choices, choice)
	}
	return choices
}
