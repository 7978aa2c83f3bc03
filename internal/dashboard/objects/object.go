package objects

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/setpoint-dev/setpoint/internal/admission"
	"github.com/setpoint-dev/setpoint/internal/controller/composite"
	"github.com/setpoint-dev/setpoint/internal/controller/trigger"
	"github.com/setpoint-dev/setpoint/internal/dashboard/ownertree"
	"github.com/setpoint-dev/setpoint/internal/dashboard/processes"
	"github.com/setpoint-dev/setpoint/internal/dashboard/timeline"
	"github.com/setpoint-dev/setpoint/internal/dashboard/userclient"
	"github.com/setpoint-dev/setpoint/internal/dashboard/web"
	"github.com/setpoint-dev/setpoint/internal/diff"
	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
	"github.com/setpoint-dev/setpoint/internal/redact"
)

type objectPage struct {
	*Object
	Owners  []owner
	States  []stateView
	Actions []web.Action
	Tree    tree
	// Runs are the runs that the URL selects, Entries those that the page shows.
	Runs    *web.List[timeline.Entry]
	Entries []entry
	// NeverStored reports that its creation was denied.
	NeverStored bool
	// Deletion ends the timeline; nil for none.
	Deletion *timeline.Deletion
	// OlderURL links to the whole timeline; "" if this is all of it.
	OlderURL string
	Events   eventList
	// Warnings say why the page is incomplete.
	Warnings []string
	// Caveats say what its processes do not know.
	Caveats []string
}

// showObject shows an object with so many entries of its timeline.
func (req *Request) showObject(limit int) error {
	s, err := req.loadObject()
	if err != nil {
		return err
	}
	p := objectPage{Object: s}
	runs, missing := req.fetchRuns(s, maxRuns)
	p.setDeletion(runs)
	p.addWarnings(missing...)
	p.setEntries(req, runs, limit)
	if err := req.loadDetails(&p, runs); err != nil {
		return err
	}
	return req.Render(web.Page{
		Name: "object", Title: s.Kind.Kind + " " + s.Name, Section: "resources",
		Watch: s.Resource(), Namespace: s.Namespace, Object: s.Name, Data: p,
	})
}

func (p *objectPage) setDeletion(runs []inspect.Run) {
	switch at := p.Meta.DeletionTimestamp; {
	case p.Deleted && timeline.NeverStored(runs):
		p.NeverStored = true
	case p.Deleted:
		p.Deletion = timeline.CompletedDeletion(runs)
	case at != nil:
		p.Deletion = timeline.PendingDeletion(at.Time, p.Meta.DeletionGracePeriodSeconds, p.Meta.Finalizers)
	}
}

// loadDetails adds states with their incidents, owners, actions, children and events.
func (req *Request) loadDetails(p *objectPage, runs []inspect.Run) error {
	s := p.Object
	states, unavailable := req.ObjectStates(s.Ref)
	p.addWarnings(unavailable...)
	if s.Deleted && len(states)+len(runs)+len(unavailable) == 0 {
		return web.NotFound("%s %s does not exist, and has no history.", s.Kind.Kind, s.Name)
	}
	known := req.managingProcesses(states)
	p.States, p.Caveats = s.stateViews(states, known, runs), caveats(known)
	loader := req.NewLoader()
	for i := range p.States {
		if state := &p.States[i]; state.Fault != nil && !state.Standby {
			state.Incident = loader.incident(s, &state.ObjectState, runs)
		}
	}
	p.Owners = req.owners(s)
	p.Actions = req.objectActions(s, states)
	var err error
	if p.Tree, err = req.tree(s, states, known); err != nil {
		return err
	}
	if p.Events.All, err = req.API.Events(req.Context(), s.Ref); err != nil {
		p.Events.Problem = web.ProblemOf(err)
	}
	return nil
}

// eventList is the events of an object, or why they cannot be listed.
type eventList struct {
	All     []userclient.Event
	Problem *web.Problem
}

// HasRun reports whether a controller has reconciled the object.
func (p objectPage) HasRun() bool {
	return slices.ContainsFunc(p.States, func(c stateView) bool { return !c.Ran.IsZero() })
}

// ownConditions are the types of the conditions that Setpoint sets on objects.
var ownConditions = append(plan.OwnConditions[:], composite.ConditionUpdated, trigger.ConditionHandled)

// Ours reports whether Setpoint sets conditions of a type on the object, or is a source of its events.
func (p objectPage) Ours(of string) bool {
	return slices.Contains(admission.ControllerGroups(), p.Group) ||
		slices.Contains(ownConditions, of) ||
		slices.ContainsFunc(p.States, func(c stateView) bool { return strings.HasPrefix(c.Process+"-", of+"-") })
}

func (p *objectPage) addWarnings(why ...string) {
	p.Warnings = lists.Union(p.Warnings, why)
}

type owner struct {
	object.Ref
	Controller bool
}

// owners returns the owners whose kinds are served.
func (req *Request) owners(s *Object) []owner {
	var found []owner
	for _, o := range s.Meta.OwnerReferences {
		version, _ := schema.ParseGroupVersion(o.APIVersion)
		kind, err := req.API.FindKind(req.Context(), schema.GroupKind{Group: version.Group, Kind: strings.ToLower(o.Kind)}.String())
		if err != nil {
			continue
		}
		ref := object.Ref{Kind: kind, Namespace: kind.Within(s.Namespace), Name: o.Name, UID: string(o.UID)}
		found = append(found, owner{Ref: ref, Controller: o.Controller != nil && *o.Controller})
	}
	return found
}

// tree is an object and the resources that it owns.
type tree struct {
	*ownertree.Node
	// Current, Unknown and Total count the direct children by health.
	Current, Unknown, Total int
	// Warnings say why the tree is incomplete.
	Warnings []string
}

// Limits of a tree.
const (
	maxNodes = 500
	maxCalls = 100
	maxReads = 200
)

// tree returns the children that controllers and workloads own. Suspended controllers watch nothing, so
// that the API server lists their children.
func (req *Request) tree(s *Object, states []inspect.ObjectState, known []processes.Info) (tree, error) {
	var kinds []object.Kind
	for i := range states {
		if states[i].Suspended {
			kinds = lists.Union(kinds, controllerOf(&states[i], known).Children)
		}
	}
	return req.Tree(s.Ref, states, kinds)
}

// Tree returns the children that controllers and workloads own, also of more kinds.
func (req *Request) Tree(ref object.Ref, states []inspect.ObjectState, kinds []object.Kind) (tree, error) {
	controllers := func() []inspect.Result[[]inspect.Controller] {
		return inspect.QueryAll(req.Context(), req.Processes.Timeouts, req.Processes.Sources(req.Context()),
			func(ctx context.Context, s inspect.Source) ([]inspect.Controller, error) { return s.Controllers(ctx) })
	}
	return buildTree(req.Context(), ref, states, &ownertree.Builder{
		API: req.API, May: req.CanRead, Processes: ownertree.NewProcesses(req.Processes.Timeouts, controllers), Kinds: kinds,
	})
}

// buildTree builds a tree with unhealthy children first.
func buildTree(ctx context.Context, ref object.Ref, states []inspect.ObjectState, g *ownertree.Builder) (tree, error) {
	g.Nodes, g.Queries, g.Reads = maxNodes, maxCalls, maxReads
	g.Order = func(a, b *ownertree.Node) int { return cmp.Compare(severity(a.Health), severity(b.Health)) }
	t := tree{Node: &ownertree.Node{Child: inspect.Child{Ref: ref}}}
	missing, err := g.Build(ctx, t.Node, states)
	t.Warnings = append(t.Warnings, lists.Map(missing, incompleteMessage)...)
	t.Total = len(t.Children) + t.More
	for _, child := range t.Children {
		switch child.Health {
		case "Current":
			t.Current++
		case "Unknown":
			t.Unknown++
		}
	}
	return t, err
}

// Summary returns how many children are current. The health of children of suspended controllers is unknown.
func (t tree) Summary() string {
	if t.Unknown == 0 {
		return fmt.Sprintf("%d of %d current", t.Current, t.Total)
	}
	if t.Unknown == t.Total {
		return fmt.Sprintf("%d, health unknown", t.Total)
	}
	return fmt.Sprintf("%d of %d current, health of %d unknown", t.Current, t.Total, t.Unknown)
}

func incompleteMessage(err error) string {
	if right, is := userclient.MissingPermission(err); is {
		return "Incomplete: forbidden: " + right.Missing() + "."
	}
	return "Incomplete: " + err.Error() + "."
}

// severity returns the sort order of a health.
func severity(health string) int {
	order := []string{inspect.HealthFailed, inspect.HealthInProgress, inspect.HealthTerminating}
	if i := slices.Index(order, health); i >= 0 {
		return i
	}
	return len(order)
}

type stateView struct {
	inspect.ObjectState
	// Declared is the manifest of the controller, if it has one.
	Declared *object.Ref
	Fault    *fault
	// FailureURL is the page of the last run, which failed; "" if it is no longer in the history.
	FailureURL string
	// Incident is what happened since the last good run; nil if the object does not fail.
	Incident *incident
	// Standby reports that another process does the work. Lost says why the process does not respond; nil if it does.
	Standby bool
	Lost    *processes.Lost
}

// ShownState returns the state as the page shows it. The process of a standby, of a suspended
// controller, or that has ended knows of none.
func (c stateView) ShownState() inspect.State {
	switch {
	case c.Lost != nil:
		return c.Lost.State
	case c.Suspended:
		return processes.Suspended
	case c.Standby && c.State == inspect.StateUnknown:
		return processes.Standby
	}
	return c.State
}

func (req *Request) managingProcesses(states []inspect.ObjectState) []processes.Info {
	if len(states) == 0 {
		return nil
	}
	return slices.DeleteFunc(req.Processes.Fetch(req.Context()), func(t processes.Info) bool {
		return !slices.ContainsFunc(states, func(c inspect.ObjectState) bool { return c.Process == t.Source.Name() })
	})
}

// controllerOf returns the controller of a state; the zero Controller if it is unknown.
func controllerOf(state *inspect.ObjectState, all []processes.Info) inspect.Controller {
	for _, each := range all {
		for _, c := range each.Controllers {
			if c.Process == state.Process && c.Name == state.Controller {
				return c
			}
		}
	}
	return inspect.Controller{}
}

func caveats(all []processes.Info) (found []string) {
	for i := range all {
		if caveat := all[i].Process.Caveat(); caveat != "" && all[i].Lost == nil {
			found = append(found, caveat)
		}
	}
	return found
}

// stateViews returns the states as a page shows them. The runs are all of the object, newest first.
func (s *Object) stateViews(states []inspect.ObjectState, all []processes.Info, runs []inspect.Run) []stateView {
	views := make([]stateView, 0, len(states))
	for _, state := range states {
		view := stateView{ObjectState: state, Declared: controllerOf(&state, all).Declared}
		if i := slices.IndexFunc(all, func(t processes.Info) bool { return t.Source.Name() == state.Process }); i >= 0 {
			view.Lost, view.Standby = all[i].Lost, all[i].Process.IsStandby()
		}
		if state.State == inspect.StateFailing && state.Error != "" {
			view.Fault = describeFault(state.Error, state.Fault, runFailedTitle)
			view.FailureURL = s.failureURL(&state, runs)
		}
		views = append(views, view)
	}
	return views
}

// failureURL returns the page of the last run of a controller if it failed; "" if it did not. Reviews are no runs.
func (s *Object) failureURL(state *inspect.ObjectState, runs []inspect.Run) string {
	for i := range runs {
		run := &runs[i]
		if run.Controller != state.Controller || run.Process != state.Process || run.Review() != nil {
			continue
		}
		if run.Error == "" {
			return ""
		}
		return runURL(s, run.Process, run.ID)
	}
	return ""
}

type yamlPage struct {
	*Object
	// Text is the object without its managed fields, which ManagedFields has.
	Text, ManagedFields string
	// Masked reports that values are hidden.
	Masked    bool
	Truncated bool
}

const maxYAMLBytes = 1 << 20

func showObjectYAML(req *Request) error {
	s, err := req.loadObject()
	if err != nil {
		return err
	}
	p := yamlPage{Object: s}
	if !s.Deleted {
		if err := p.setText(s); err != nil {
			return err
		}
	}
	return req.Render(web.Page{
		Name: "object_yaml", Title: s.Kind.Kind + " " + s.Name + " as YAML", Section: "resources",
		Watch: s.Resource(), Namespace: s.Namespace, Object: s.Name, Data: p,
	})
}

func (p *yamlPage) setText(s *Object) error {
	var o map[string]any
	if err := json.Unmarshal(s.Raw, &o); err != nil {
		return fmt.Errorf("decode %s %s: %w", s.Kind.Kind, s.Name, err)
	}
	metadata, _ := o["metadata"].(map[string]any)
	managers := metadata["managedFields"]
	delete(metadata, "managedFields")
	p.Masked = object.IsSecret(o) && redact.Secret(o, HiddenValue) > 0
	var err error
	if p.Text, p.Truncated, err = toYAML(o); err != nil {
		return err
	}
	if managers != nil {
		p.ManagedFields, _, err = toYAML(managers)
	}
	return err
}

func toYAML(value any) (text string, cut bool, err error) {
	data, err := yaml.Marshal(value)
	if err != nil {
		return "", false, fmt.Errorf("write YAML: %w", err)
	}
	if cut = len(data) > maxYAMLBytes; cut {
		data = data[:maxYAMLBytes]
	}
	return diff.EscapeInvisible(string(data)), cut, nil
}

// HiddenValue replaces the values of Secrets.
const HiddenValue = "*** (hidden)"

// ObjectStates returns the states of an object as far as the user may read them, and messages
// for unavailable processes.
func (req *Request) ObjectStates(ref object.Ref) (states []inspect.ObjectState, missing []string) {
	found, missing := processes.FetchAll(req.Context(), req.Processes, func(ctx context.Context, s inspect.Source) ([]inspect.ObjectState,
		error) {
		return s.States(ctx, ref)
	})
	for _, state := range slices.Concat(found...) {
		states = append(states, inspect.RedactState(state, req.CanRead))
	}
	return states, missing
}

// setEntries sets the runs that the URL selects, at most so many.
func (p *objectPage) setEntries(req *Request, runs []inspect.Run, limit int) {
	p.Runs = web.NewList(req.Request, timeline.Entries(runs), runSpec())
	shown := p.Runs.Rows
	if len(shown) > limit {
		shown = shown[:limit]
		p.OlderURL = p.URL("timeline")
		if query := req.R.URL.RawQuery; query != "" {
			p.OlderURL += "?" + query
		}
	}
	p.Entries = req.entriesOf(p.Object, shown, runs)
}
