package explore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/setpoint-dev/setpoint/internal/dev/manifest"
	"github.com/setpoint-dev/setpoint/internal/explore/apiserver"
	"github.com/setpoint-dev/setpoint/internal/explore/environment"
	"github.com/setpoint-dev/setpoint/internal/explore/loop"
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

	spec       explorationSpec
	controller *workspace.Controller
}

// explorationSpec are the fields of a document of kind Exploration.
type explorationSpec struct {
	APIVersion string          `json:"apiVersion"`
	Kind       string          `json:"kind"`
	Metadata   json.RawMessage `json:"metadata"`
	// Controller is the name of a controller, or KIND/NAME. Without it all are explored together.
	Controller string            `json:"controller"`
	Objects    []json.RawMessage `json:"objects"`
	Edits      []editSpec        `json:"edits"`
	Invariants []Invariant       `json:"invariants"`
	Unchecked  []Property        `json:"unchecked"`
	Bounds     boundsSpec        `json:"bounds"`
}

// editSpec is an edit in a document. One of patch, create and delete is set.
type editSpec struct {
	Name string `json:"name"`
	// Of is the object; optional if there is only one.
	Of     *editedObject   `json:"of"`
	Patch  map[string]any  `json:"patch"`
	Create json.RawMessage `json:"create"`
	Delete bool            `json:"delete"`
}

type editedObject struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
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
		x := &Exploration{Name: d.Object.GetName(), Document: d}
		if err := d.Decode(&x.spec); err != nil {
			problems = append(problems, err)
			continue
		}
		if err := x.check(w); err != nil {
			problems = append(problems, fmt.Errorf("%s: %s: %w", d.Locate(err), x.Name, err))
			continue
		}
		all = append(all, x)
	}
	if len(all)+len(problems) == 0 {
		for _, c := range w.Controllers {
			if len(c.Programs)+len(c.Handlers) > 0 && len(w.SamplesOf(c)) > 0 {
				all = append(all, &Exploration{Name: c.Object.Name(), controller: c})
			}
		}
	}
	return all, errors.Join(problems...)
}

// check checks what needs no server.
func (x *Exploration) check(w *workspace.Workspace) error {
	if x.spec.Controller != "" {
		at := slices.IndexFunc(w.Controllers, func(c *workspace.Controller) bool {
			return c.Object.Name() == x.spec.Controller || strings.EqualFold(c.String(), x.spec.Controller)
		})
		if at < 0 {
			return fmt.Errorf("controller: %q is not in the files", x.spec.Controller)
		}
		x.controller = w.Controllers[at]
	}
	for _, p := range x.spec.Unchecked {
		if !slices.Contains(Properties, p) {
			return fmt.Errorf("unchecked: %q is no property; there are %s", p, join(Properties))
		}
	}
	if _, err := x.bounds(Bounds{}); err != nil {
		return err
	}
	return CheckInvariants(x.spec.Invariants)
}

// bounds returns the bounds of the document, completed by those of the command line.
func (x *Exploration) bounds(bounds Bounds) (Bounds, error) {
	for _, b := range []struct {
		from *int
		to   *int
	}{{x.spec.Bounds.Edits, &bounds.Edits}, {x.spec.Bounds.Crashes, &bounds.Crashes}, {x.spec.Bounds.Faults, &bounds.Faults}} {
		if b.from != nil {
			*b.to = *b.from
		}
	}
	if x.spec.Bounds.States > 0 {
		bounds.States = x.spec.Bounds.States
	}
	if x.spec.Bounds.Writes > 0 {
		bounds.Writes = x.spec.Bounds.Writes
	}
	if x.spec.Bounds.Time != "" {
		d, err := time.ParseDuration(x.spec.Bounds.Time)
		if err != nil || d <= 0 {
			return bounds, fmt.Errorf("bounds.time: %q must be a duration such as 30s", x.spec.Bounds.Time)
		}
		bounds.Time = d
	}
	return bounds, bounds.check()
}

// controllers returns what is explored.
func (x *Exploration) controllers(w *workspace.Workspace) []*workspace.Controller {
	if x.controller != nil {
		return []*workspace.Controller{x.controller}
	}
	return w.Controllers
}

// generatedEdits is how many edits of fields are generated for each object.
const generatedEdits = 8

// Options returns what Explore and Replay need, with the bounds of the command line where the exploration has none.
func (x *Exploration) Options(ctx context.Context, w *workspace.Workspace, bounds Bounds) (Options, error) {
	server, err := x.server(w)
	if err != nil {
		return Options{}, err
	}
	o := Options{Invariants: x.spec.Invariants, Unchecked: x.spec.Unchecked, Memo: loop.NewMemo()}
	if o.Bounds, err = x.bounds(bounds); err != nil {
		return o, err
	}
	o.Server, o.Environment = InMemory(server, environment.New(server, environment.Options{}).Steps)
	var programs loop.Programs
	for _, c := range x.controllers(w) {
		programs.Compose = append(programs.Compose, c.Programs...)
		programs.Handle = append(programs.Handle, c.Handlers...)
	}
	o.Controllers = []Controller{Setpoint(ctx, programs, loop.Options{Memo: o.Memo, Resolve: w.Kinds.Resolve}, server.Resource)}
	if o.Objects, err = x.objects(w); err != nil {
		return o, err
	}
	o.Edits, err = x.edits(w, o.Objects)
	return o, err
}

// server returns an API server with all kinds that the controllers and the objects have.
func (x *Exploration) server(w *workspace.Workspace) (*apiserver.Server, error) {
	options := apiserver.Options{}
	for _, crd := range w.CRDs {
		options.CRDs = append(options.CRDs, crd.JSON())
	}
	add := func(all ...object.Resource) {
		for _, r := range all {
			defined := slices.ContainsFunc(w.Kinds.Defined(), func(s schema.Served) bool { return s.GroupKind() == r.GroupKind() })
			if !defined && !slices.Contains(options.Kinds, r) && r.GroupKind() != object.Namespaces.GroupKind() {
				options.Kinds = append(options.Kinds, r)
			}
		}
	}
	for _, c := range x.controllers(w) {
		managed, written, read := c.Resources()
		add(managed...)
		add(written...)
		add(read...)
	}
	add(plan.ControllerRevisions)
	objects, err := x.objects(w)
	if err != nil {
		return nil, err
	}
	for _, o := range objects {
		r, err := w.Kinds.ResolveKind(context.Background(), o.APIVersion(), o.Kind())
		if err != nil {
			return nil, err
		}
		add(r)
		if o.Namespace() != "" {
			options.Namespaces = append(options.Namespaces, o.Namespace())
		}
	}
	return apiserver.New(options)
}

// objects returns those of the document, or the first sample of each kind.
func (x *Exploration) objects(w *workspace.Workspace) ([]*object.Object, error) {
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
			sameKind := func(o *object.Object) bool { return o.GroupKind() == sample.GroupKind() }
			if !slices.ContainsFunc(all, sameKind) {
				all = append(all, sample)
			}
		}
	}
	if len(all) == 0 {
		return nil, errors.New("objects: is empty, and the files have no samples of what the controllers manage")
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

// edits returns those of the document, or edits generated from the schemas of the objects.
func (x *Exploration) edits(w *workspace.Workspace, objects []*object.Object) ([]Edit, error) {
	var all []Edit
	for i := range x.spec.Edits {
		one, err := x.spec.Edits[i].edit(w, objects)
		if err != nil {
			return nil, fmt.Errorf("edits[%d]%w", i, err)
		}
		all = append(all, one)
	}
	if len(all) > 0 {
		return all, nil
	}
	for _, o := range objects {
		at := slices.IndexFunc(w.Kinds.Defined(), func(s schema.Served) bool { return s.GroupKind() == o.GroupKind() && s.APIVersion() == o.APIVersion() })
		var of *spec.Schema
		if at >= 0 {
			of = w.Kinds.Defined()[at].Schema
		}
		generated, err := Generate(o, of, generatedEdits)
		if err != nil {
			return nil, fmt.Errorf("generate edits of %s: %w", o.Ref(), err)
		}
		all = append(all, generated...)
	}
	return all, nil
}

// edit returns the edit of a document.
func (e *editSpec) edit(w *workspace.Workspace, objects []*object.Object) (Edit, error) {
	given := 0
	for _, is := range []bool{e.Patch != nil, e.Create != nil, e.Delete} {
		if is {
			given++
		}
	}
	switch {
	case e.Name == "":
		return Edit{}, errors.New(".name: is required")
	case given != 1:
		return Edit{}, errors.New(": has to have one of patch, create and delete")
	}
	if e.Create != nil {
		o, err := object.Parse(e.Create)
		if err == nil {
			o, err = inNamespace(w, o)
		}
		if err != nil {
			return Edit{}, fmt.Errorf(".create: %w", err)
		}
		return Edit{Name: e.Name, Object: o.Ref().Identity(), Create: o}, nil
	}
	fitting := slices.DeleteFunc(slices.Clone(objects), func(o *object.Object) bool { return !e.Of.fits(o) })
	if len(fitting) != 1 {
		return Edit{}, fmt.Errorf(".of: fits %d objects; name one by kind, namespace and name", len(fitting))
	}
	return Edit{Name: e.Name, Object: fitting[0].Ref().Identity(), Patch: e.Patch, Delete: e.Delete}, nil
}

// fits reports whether an object is meant.
func (e *editedObject) fits(o *object.Object) bool {
	return e == nil || (e.Kind == "" || e.Kind == o.Kind()) && (e.Namespace == "" || e.Namespace == o.Namespace()) && (e.Name == "" || e.Name == o.Name())
}
