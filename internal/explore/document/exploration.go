// Package document makes explorations of the files of a workspace: of documents of kind Exploration, or of samples, with edits
// that follow from schemas, and further passes over pairs and deletions.
package document

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

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/controller/composite"
	"github.com/setpoint-dev/setpoint/internal/dev/manifest"
	"github.com/setpoint-dev/setpoint/internal/explore"
	"github.com/setpoint-dev/setpoint/internal/explore/apiserver"
	"github.com/setpoint-dev/setpoint/internal/explore/counterexample"
	"github.com/setpoint-dev/setpoint/internal/explore/environment"
	"github.com/setpoint-dev/setpoint/internal/explore/loop"
	"github.com/setpoint-dev/setpoint/internal/explore/phrase"
	"github.com/setpoint-dev/setpoint/internal/explore/property"
	"github.com/setpoint-dev/setpoint/internal/explore/state"
	"github.com/setpoint-dev/setpoint/internal/explore/world"
	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
	"github.com/setpoint-dev/setpoint/internal/schema"
	"github.com/setpoint-dev/setpoint/internal/workspace"
)

// Exploration says what to explore of the controllers of a workspace.
type Exploration struct {
	// Name and Document say where it is; the Document is empty for the default one.
	Name     string
	Document manifest.Document
	// External is what hooks call outside of the cluster; nil for nothing.
	External *loop.External

	spec explorationSpec
	// chosen are the controllers to explore; empty for all.
	chosen []*workspace.Controller
}

// explorationSpec are the fields of a document of kind Exploration.
type explorationSpec struct {
	APIVersion string          `json:"apiVersion"`
	Kind       string          `json:"kind"`
	Metadata   json.RawMessage `json:"metadata"`
	// Controller is the name of a controller, or KIND/NAME. Without it all are explored together.
	Controller string               `json:"controller"`
	Objects    []json.RawMessage    `json:"objects"`
	Edits      []editSpec           `json:"edits"`
	Invariants []property.Invariant `json:"invariants"`
	Unchecked  []property.Property  `json:"unchecked"`
	Bounds     boundsSpec           `json:"bounds"`
}

// boundsSpec are the bounds of a document: those that are not set are those of the command line.
type boundsSpec struct {
	Edits   *int   `json:"edits"`
	Crashes *int   `json:"crashes"`
	Faults  *int   `json:"faults"`
	Time    string `json:"time"`
	States  int    `json:"states"`
	Writes  int    `json:"writes"`
}

// Read returns the explorations of a workspace. If there are none, each controller has a default one, of its samples.
// It returns all errors.
func Read(w *workspace.Workspace) ([]*Exploration, error) {
	var all []*Exploration
	var problems []error
	for _, d := range w.Tests {
		if d.Object.GetKind() != workspace.ExplorationKind {
			continue
		}
		x, err := New(d, w)
		problems = append(problems, err)
		if err == nil {
			all = append(all, x)
		}
	}
	if len(all) == 0 && errors.Join(problems...) == nil {
		for _, c := range w.Controllers {
			if len(c.Programs)+len(c.Handlers) > 0 && len(w.SamplesOf(c)) > 0 {
				all = append(all, &Exploration{Name: c.Object.Name(), chosen: []*workspace.Controller{c}})
			}
		}
	}
	return all, errors.Join(problems...)
}

// New returns the exploration of a document.
func New(d manifest.Document, w *workspace.Workspace) (*Exploration, error) {
	x := &Exploration{Name: d.Object.GetName(), Document: d}
	if err := d.Decode(&x.spec); err != nil {
		return nil, err
	}
	err := x.check(w)
	if err != nil && d.File != "" {
		err = fmt.Errorf("%s: %s: %w", d.Locate(err), x.Name, err)
	}
	return x, err
}

// check checks what needs no server.
func (x *Exploration) check(w *workspace.Workspace) error {
	if x.spec.Controller != "" {
		if err := x.choose(w, x.spec.Controller); err != nil {
			return fmt.Errorf("controller: %w", err)
		}
	}
	for _, p := range x.spec.Unchecked {
		if !slices.Contains(property.Properties, p) {
			return fmt.Errorf("unchecked: %q is no property; there are %s", p, property.Join(property.Properties))
		}
	}
	if _, err := x.bounds(explore.Bounds{}); err != nil {
		return err
	}
	_, err := property.Compile(x.spec.Invariants)
	return err
}

// choose adds a controller to those to explore, by its name or KIND/NAME.
func (x *Exploration) choose(w *workspace.Workspace, name string) error {
	at := slices.IndexFunc(w.Controllers, func(c *workspace.Controller) bool {
		return c.Object.Name() == name || strings.EqualFold(c.String(), name)
	})
	if at < 0 {
		return fmt.Errorf("%q is not in the files", name)
	}
	x.chosen = append(x.chosen, w.Controllers[at])
	return nil
}

// bounds returns the bounds of the document, completed by those of the command line.
func (x *Exploration) bounds(bounds explore.Bounds) (explore.Bounds, error) {
	for _, b := range []struct {
		from *int
		to   *int
	}{{x.spec.Bounds.Edits, &bounds.Edits}, {x.spec.Bounds.Crashes, &bounds.Crashes}, {x.spec.Bounds.Faults, &bounds.Faults}} {
		if b.from != nil {
			*b.to = *b.from
		}
	}
	bounds.States = cmp.Or(max(0, x.spec.Bounds.States), bounds.States)
	bounds.Writes = cmp.Or(max(0, x.spec.Bounds.Writes), bounds.Writes)
	if x.spec.Bounds.Time != "" {
		d, err := time.ParseDuration(x.spec.Bounds.Time)
		if err != nil || d <= 0 {
			return bounds, fmt.Errorf("bounds.time: %q must be a duration such as 30s", x.spec.Bounds.Time)
		}
		bounds.Time = d
	}
	return bounds, bounds.Check()
}

func (x *Exploration) controllers(w *workspace.Workspace) []*workspace.Controller {
	if len(x.chosen) > 0 {
		return x.chosen
	}
	return w.Controllers
}

// resources returns the kinds that the controllers manage, write and read.
func (x *Exploration) resources(w *workspace.Workspace) (managed, written, read []object.Resource) {
	for _, c := range x.controllers(w) {
		m, wr, r := c.Resources()
		managed, written, read = append(managed, m...), append(written, wr...), append(read, r...)
	}
	return managed, written, read
}

// generatedEdits is how many edits of fields are generated for each object.
const generatedEdits = 8

// Options returns what Explore and Replay need, with the bounds of the command line where the exploration has none.
func (x *Exploration) Options(ctx context.Context, w *workspace.Workspace, bounds explore.Bounds) (explore.Options, error) {
	o, err := x.world(ctx, w, loop.NewMemo())
	if err != nil {
		return o, err
	}
	o.Invariants, o.Unchecked, o.Restart = x.spec.Invariants, x.spec.Unchecked, x.restart(w)
	if o.Bounds, err = x.bounds(bounds); err != nil {
		return o, err
	}
	if o.Edits, err = x.edits(w, o.Objects); err != nil {
		return o, err
	}
	o.NotVaried = x.notVaried(ctx, w, &o)
	for _, further := range []func(context.Context, *workspace.Workspace, *explore.Options) ([]explore.Pass, error){x.pairs, x.deletion} {
		passes, err := further(ctx, w, &o)
		if err != nil {
			return o, err
		}
		o.Passes = append(o.Passes, passes...)
	}
	return o, nil
}

// passTime is how long a further search may take: a third of the time of the exploration, in addition.
func passTime(main *explore.Options) time.Duration {
	return (cmp.Or(main.Bounds.Time, explore.DefaultBoundOfTime) / 3).Round(time.Millisecond)
}

// world returns the processes, the API server and the objects of an exploration.
func (x *Exploration) world(ctx context.Context, w *workspace.Workspace, memo *loop.Memo) (explore.Options, error) {
	objects, err := x.objects(ctx, w)
	if err != nil {
		return explore.Options{}, err
	}
	server, err := x.server(ctx, w, objects)
	if err != nil {
		return explore.Options{}, err
	}
	o := explore.Options{System: state.System{External: x.External, Objects: objects}, Memo: memo}
	o.Server, o.Environment = &world.Server{Server: server}, environment.New(server).Steps
	var programs loop.Programs
	shared := &sync.Mutex{}
	for _, c := range x.controllers(w) {
		o.Names = append(o.Names, c.String())
		programs.Compose = append(programs.Compose, c.Programs...)
		programs.Handle = append(programs.Handle, c.Handlers...)
		if c.Index != nil {
			programs.Indexes, programs.Memory = append(programs.Indexes, c.Index), shared
		}
	}
	o.Together = x.External != nil || programs.Memory != nil // All objects have these in common.
	o.Controller = world.Setpoint(ctx, programs, loop.Options{Memo: memo, External: x.External, Resolve: w.Kinds.Resolve}, server.Resource)
	return o, nil
}

// restart returns what starts the hooks of a workspace once more; nil if its functions are in this process.
func (x *Exploration) restart(w *workspace.Workspace) func(ctx context.Context) (loop.Programs, func(), error) {
	if !w.CanOpenAgain() {
		return nil
	}
	return func(ctx context.Context) (loop.Programs, func(), error) {
		again, err := w.Again(ctx)
		if err != nil {
			return loop.Programs{}, nil, err
		}
		var programs loop.Programs
		for _, c := range again.Controllers {
			programs.Compose, programs.Handle = append(programs.Compose, c.Programs...), append(programs.Handle, c.Handlers...)
		}
		return programs, again.Close, nil
	}
}

// server returns an API server with all kinds that the controllers and the objects have.
func (x *Exploration) server(ctx context.Context, w *workspace.Workspace, objects []*object.Object) (*apiserver.Server, error) {
	options := apiserver.Options{CRDs: lists.Map(w.CRDs, (*object.Object).JSON)}
	add := func(all ...object.Resource) {
		for _, r := range all {
			defined := slices.ContainsFunc(w.Kinds.Defined(), func(s schema.Served) bool { return s.GroupKind() == r.GroupKind() })
			if !defined && !slices.Contains(options.Kinds, r) && r.GroupKind() != object.Namespaces.GroupKind() {
				options.Kinds = append(options.Kinds, r)
			}
		}
	}
	managed, written, read := x.resources(w)
	add(slices.Concat(managed, written, read)...)
	add(plan.ControllerRevisions, loop.OutageResource)
	if x.External != nil {
		add(loop.ExternalKind)
	}
	add(x.related(ctx, w, objects)...)
	for _, o := range objects {
		r, err := w.Kinds.ResolveKind(ctx, o.APIVersion(), o.Kind())
		if err != nil {
			return nil, err
		}
		add(r)
		isNamespace := func(other *object.Object) bool {
			return other.GroupKind() == object.Namespaces.GroupKind() && other.Name() == o.Namespace()
		}
		if o.Namespace() != "" && !slices.ContainsFunc(objects, isNamespace) {
			options.Namespaces = append(options.Namespaces, o.Namespace())
		}
	}
	return apiserver.New(options)
}

// objects returns those of the document, or the first sample of each kind that is managed, and all of related kinds.
func (x *Exploration) objects(ctx context.Context, w *workspace.Workspace) ([]*object.Object, error) {
	var all []*object.Object
	for i, raw := range x.spec.Objects {
		o, err := object.Parse(raw)
		if err != nil {
			return nil, fmt.Errorf("objects[%d]: %w", i, err)
		}
		if o, err = inNamespace(w, o); err != nil {
			return nil, fmt.Errorf("objects[%d]: %w", i, err)
		}
		all = append(all, o)
	}
	if len(all) > 0 {
		return all, nil
	}
	for _, c := range x.controllers(w) {
		for _, sample := range w.SamplesOf(c) {
			if !slices.ContainsFunc(all, isOf(sample.GroupKind())) {
				all = append(all, sample)
			}
		}
	}
	if len(all) == 0 {
		return nil, errors.New("objects: is empty, and the files have no samples of what the controllers manage")
	}
	for _, kind := range x.related(ctx, w, all) {
		all = lists.Union(all, lists.Filter(w.Objects, isOf(kind.GroupKind())))
	}
	return all, nil
}

// inNamespace puts a namespaced object without a namespace into the default one.
func inNamespace(w *workspace.Workspace, o *object.Object) (*object.Object, error) {
	if o.Name() == "" {
		return nil, errors.New("metadata.name: is required")
	}
	r, err := w.Kinds.ResolveKind(context.Background(), o.APIVersion(), o.Kind())
	if err != nil || !r.Namespaced || o.Namespace() != "" {
		return o, err
	}
	return o.With([]byte(`"default"`), "metadata", "namespace")
}

// ForStory returns an exploration of the controllers and objects of a story, with the bounds of the one that found it if
// that is among the known ones.
func ForStory(w *workspace.Workspace, known []*Exploration, story *counterexample.Story) (*Exploration, error) {
	x := &Exploration{Name: story.Metadata.Name}
	for _, each := range known {
		if strings.HasPrefix(story.Metadata.Name, each.Name+"-") {
			x.spec.Bounds, x.chosen = each.spec.Bounds, each.chosen
		}
	}
	if len(story.Controllers) > 0 {
		x.chosen = nil
	}
	for i, name := range story.Controllers {
		if err := x.choose(w, name); err != nil {
			return nil, fmt.Errorf("controllers[%d]: %w", i, err)
		}
	}
	x.spec.Objects = append(x.spec.Objects, story.Objects...)
	return x, nil
}

// deletionEdits is how many edits the search of deletions has: the deletion, and what goes before or after it.
const deletionEdits = 2

// deletion returns the search of what a deletion might depend on: objects are deleted, by themselves or with their
// namespace, and leave what the controller selects, while kinds are no longer served and rights are revoked. It returns nil if
// nothing is to be found: no controller keeps objects, or an author says that they stay.
func (x *Exploration) deletion(ctx context.Context, w *workspace.Workspace, main *explore.Options) ([]explore.Pass, error) {
	if !slices.ContainsFunc(x.controllers(w), (*workspace.Controller).Finalizes) || slices.Contains(x.spec.Unchecked, property.Finalized) {
		return nil, nil
	}
	moved, err := x.inNamespaceOfItsOwn(main.Objects)
	if err != nil {
		return nil, err
	}
	o, err := moved.world(ctx, w, main.Memo)
	if err != nil {
		return nil, err
	}
	dependencies := x.dependencies(ctx, w, o.Objects)
	for _, one := range dependencies {
		begins, err := one.Object()
		if err != nil {
			return nil, err
		}
		edit := world.Edit{Name: one.String(), Object: one.Ref(), Generated: true, Create: world.Manifest{Object: begins}}
		o.Edits = append(o.Edits, edit)
	}
	o.Edits = append(o.Edits, x.departures(w, o.Objects)...)
	o.Bounds = explore.Bounds{Edits: deletionEdits, Time: passTime(main), States: main.Bounds.States, Memory: main.Bounds.Memory,
		Writes: main.Bounds.Writes}
	o.Together, o.Unchecked = true, slices.DeleteFunc(slices.Clone(property.Properties), func(p property.Property) bool {
		return slices.Contains([]property.Property{property.Deterministic, property.Finalized, property.Valid, property.Settles}, p) &&
			!slices.Contains(x.spec.Unchecked, p)
	})
	return []explore.Pass{{Name: "Deletion was explored " + circumstances(dependencies), Options: o}}, nil
}

// circumstances says in which circumstances objects are deleted.
func circumstances(dependencies []loop.Outage) string {
	all := lists.Map(dependencies, loop.Outage.String)
	if len(all) == 0 {
		return "with the namespace, and after the object has left the selection"
	}
	return "while " + strings.Join(all, ", ") + ", with the namespace, and after the object has left the selection"
}

// ownNamespace is where objects of the namespace "default" are if it is to be deleted: the API server keeps that one.
const ownNamespace = "explored"

// inNamespaceOfItsOwn returns the exploration with its objects in a namespace that can be deleted.
func (x *Exploration) inNamespaceOfItsOwn(objects []*object.Object) (*Exploration, error) {
	moved := *x
	moved.spec.Objects = nil
	for _, o := range objects {
		if o.Namespace() == "default" {
			var err error
			if o, err = o.WithValue(ownNamespace, "metadata", "namespace"); err != nil {
				return nil, err
			}
		}
		moved.spec.Objects = append(moved.spec.Objects, o.JSON())
	}
	return &moved, nil
}

// dependencies returns what of the world around them controllers may miss: kinds, and rights on those of children and of
// related objects. Without the right to write a parent, nothing can go.
func (x *Exploration) dependencies(ctx context.Context, w *workspace.Workspace, objects []*object.Object) []loop.Outage {
	managed, written, read := x.resources(w)
	read = append(read, x.related(ctx, w, objects)...)
	var all []loop.Outage
	add := func(of object.Resource, what ...loop.OutageKind) {
		for _, one := range what {
			outage, parents := loop.Outage{What: one, Of: of}, one != loop.Unserved && slices.Contains(managed, of)
			if !parents && !slices.Contains(all, outage) {
				all = append(all, outage)
			}
		}
	}
	for _, of := range managed {
		if of.Custom { // Its CRD may go.
			add(of, loop.Unserved)
		}
	}
	for _, of := range written {
		add(of, loop.Unserved, loop.Unwritten)
	}
	for _, of := range read {
		if !slices.Contains(written, of) { // Children that cannot be read keep a controller from starting.
			add(of, loop.Unserved, loop.Unlisted)
		}
	}
	return all
}

// related returns the kinds of the related objects of some parents: those that the controllers name, and what the customize
// hooks select. One that fails selects nothing.
func (x *Exploration) related(ctx context.Context, w *workspace.Workspace, objects []*object.Object) []object.Resource {
	var all []object.Resource
	for _, c := range x.controllers(w) {
		for i := range c.Programs {
			all = append(all, selected(ctx, w, &c.Programs[i], objects)...)
		}
		for i := range c.Handlers {
			for _, one := range c.Handlers[i].Related {
				all = append(all, one.Resource)
			}
		}
	}
	return all
}

// selected returns the kinds that the customize hook of a program selects.
func selected(ctx context.Context, w *workspace.Workspace, p *composite.Program, objects []*object.Object) []object.Resource {
	var all []object.Resource
	for _, o := range objects {
		if p.Customize == nil || o.GroupKind() != p.Parent.GroupKind() {
			continue
		}
		response, err := p.Customize.Customize(ctx, &hook.CustomizeRequest{Controller: p.Object, Parent: o.JSON()})
		if err != nil {
			continue
		}
		for _, rule := range response.Related {
			if kind, err := w.Kinds.Resolve(ctx, rule.APIVersion, rule.Resource); err == nil &&
				kind.GroupKind() != object.Namespaces.GroupKind() {
				all = append(all, kind)
			}
		}
	}
	return all
}

// departures are the ways in which objects go: they are deleted, their namespace is, or a selector no longer matches.
func (x *Exploration) departures(w *workspace.Workspace, objects []*object.Object) []world.Edit {
	var all []world.Edit
	namespaces := map[string]bool{}
	for _, o := range objects {
		ref := o.Ref().Identity()
		all = append(all, world.Edit{Name: "delete", Object: ref, Delete: true, Generated: true})
		if labels := x.departing(w, o); labels != nil {
			all = append(all, world.Edit{Name: "leave the selection", Object: ref, Patch: map[string]any{"metadata": labels},
				Generated: true})
		}
		if o.Namespace() != "" && !namespaces[o.Namespace()] {
			namespaces[o.Namespace()] = true
			all = append(all, world.Edit{Name: "delete", Object: object.Namespaces.Ref("", o.Namespace()).Identity(), Delete: true,
				Generated: true})
		}
	}
	return all
}

// departing returns metadata with which no program selects an object any more; nil if all select it in any case.
func (x *Exploration) departing(w *workspace.Workspace, o *object.Object) map[string]any {
	metadata := map[string]any{}
	for _, c := range x.controllers(w) {
		for i := range c.Programs {
			if c.Programs[i].Parent.GroupKind() != o.GroupKind() {
				continue
			}
			for _, s := range c.Programs[i].Selections {
				unmatch(metadata, "labels", s.Labels)
				unmatch(metadata, "annotations", s.Annotations)
			}
		}
	}
	if len(metadata) == 0 {
		return nil
	}
	return metadata
}

// unmatch adds what makes a selector fail.
func unmatch(metadata map[string]any, field string, s labels.Selector) {
	if s == nil {
		return
	}
	requirements, _ := s.Requirements()
	for _, r := range requirements {
		values, _ := metadata[field].(map[string]any)
		if values == nil {
			values = map[string]any{}
			metadata[field] = values
		}
		values[r.Key()] = nil
		switch r.Operator() {
		case selection.NotIn, selection.NotEquals:
			values[r.Key()] = r.Values().List()[0]
		case selection.DoesNotExist:
			values[r.Key()] = "true"
		}
	}
}

// pairs returns the search of two objects of each kind that is managed: the hook may give their children one name, or mix up
// what it knows of them. It returns nil if an author says what the objects are. The bounds are small, since two objects that
// have something in common are explored together.
func (x *Exploration) pairs(ctx context.Context, w *workspace.Workspace, main *explore.Options) ([]explore.Pass, error) {
	if len(x.spec.Objects) > 0 {
		return nil, nil
	}
	two := *x
	var names []string
	for _, o := range main.Objects {
		two.spec.Objects = append(two.spec.Objects, o.JSON())
		if !x.manages(w, o) {
			continue
		}
		second, err := x.second(w, o)
		if err != nil {
			return nil, err
		}
		names = append(names, second.Ref().Identity().String())
		two.spec.Objects = append(two.spec.Objects, second.JSON())
	}
	o, err := two.world(ctx, w, main.Memo)
	if err != nil {
		return nil, err
	}
	o.Edits = main.Edits // Those of an author speak of the first one.
	if len(x.spec.Edits) == 0 {
		if o.Edits, err = two.edits(w, o.Objects); err != nil {
			return nil, err
		}
	}
	o.Unchecked, o.Bounds = main.Unchecked, main.Bounds
	o.Bounds.Edits, o.Bounds.Crashes, o.Bounds.Faults, o.Bounds.Time = min(main.Bounds.Edits, 1), 0, 0, passTime(main)
	name := fmt.Sprintf("With %s besides, at most %s, without crashes and faults", strings.Join(names, " and "),
		phrase.Count(o.Bounds.Edits, "edit"))
	return []explore.Pass{{Name: name, Options: o}}, nil
}

// manages reports whether objects are reconciled, and not only read.
func (x *Exploration) manages(w *workspace.Workspace, o *object.Object) bool {
	managed, _, _ := x.resources(w)
	return slices.ContainsFunc(managed, func(r object.Resource) bool { return r.GroupKind() == o.GroupKind() })
}

// second returns another object of a kind: the second sample in the files, or a copy with a name that begins like the first
// one, as names of children do.
func (x *Exploration) second(w *workspace.Workspace, first *object.Object) (*object.Object, error) {
	for _, o := range w.Objects {
		if o.GroupKind() == first.GroupKind() && o.Ref().Identity() != first.Ref().Identity() {
			return o, nil
		}
	}
	return first.WithValue(first.Name()+"-1", "metadata", "name")
}
