package explore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/setpoint-dev/setpoint/internal/explore/apiserver"
	"github.com/setpoint-dev/setpoint/internal/explore/environment"
	"github.com/setpoint-dev/setpoint/internal/explore/loop"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
	"github.com/setpoint-dev/setpoint/internal/schema"
	"github.com/setpoint-dev/setpoint/internal/workspace"
)

// controllers returns what is explored.
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
func (x *Exploration) Options(ctx context.Context, w *workspace.Workspace, bounds Bounds) (Options, error) {
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
	for _, further := range []func(context.Context, *workspace.Workspace, *Options) (*Pass, error){x.pairs, x.deletion} {
		pass, err := further(ctx, w, &o)
		if err != nil {
			return o, err
		}
		if pass != nil {
			o.Passes = append(o.Passes, *pass)
		}
	}
	return o, nil
}

// passTime is how long a further search may take: a third of the time of the exploration, in addition.
func passTime(main *Options) time.Duration {
	return (cmp.Or(main.Bounds.Time, defaultBoundOfTime) / 3).Round(time.Millisecond)
}

// world returns the processes, the API server and the objects of an exploration.
func (x *Exploration) world(ctx context.Context, w *workspace.Workspace, memo *loop.Memo) (Options, error) {
	server, err := x.server(ctx, w)
	if err != nil {
		return Options{}, err
	}
	o := Options{External: x.External, Memo: memo}
	o.Server, o.Environment = InMemory(server, environment.New(server, environment.Options{}).Steps)
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
	o.Controllers = []Controller{Setpoint(ctx, programs, loop.Options{Memo: memo, External: x.External, Resolve: w.Kinds.Resolve},
		server.Resource)}
	o.Objects, err = x.objects(ctx, w)
	return o, err
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
func (x *Exploration) server(ctx context.Context, w *workspace.Workspace) (*apiserver.Server, error) {
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
	managed, written, read := x.resources(w)
	add(slices.Concat(managed, written, read)...)
	add(plan.ControllerRevisions, loop.OutageResource)
	if x.External != nil {
		add(loop.ExternalKind)
	}
	objects, err := x.objects(ctx, w)
	if err != nil {
		return nil, err
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
			sameKind := func(o *object.Object) bool { return o.GroupKind() == sample.GroupKind() }
			if !slices.ContainsFunc(all, sameKind) {
				all = append(all, sample)
			}
		}
	}
	if len(all) == 0 {
		return nil, errors.New("objects: is empty, and the files have no samples of what the controllers manage")
	}
	for _, kind := range x.related(ctx, w, all) {
		for _, sample := range w.Objects {
			if sample.GroupKind() == kind.GroupKind() && !slices.Contains(all, sample) {
				all = append(all, sample)
			}
		}
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
func ForStory(w *workspace.Workspace, known []*Exploration, story *Story) (*Exploration, error) {
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
	for _, o := range story.Objects {
		x.spec.Objects = append(x.spec.Objects, encoded(o))
	}
	return x, nil
}
