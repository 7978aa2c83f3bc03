package manager

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	runtimemetrics "runtime/metrics"
	"slices"
	"time"

	"github.com/setpoint-dev/setpoint/internal/dashboard/model"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/manager/rbac"
	"github.com/setpoint-dev/setpoint/internal/manager/serving"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/queue"
	"github.com/setpoint-dev/setpoint/internal/record"
)

// History configures the history of reconciles.
type History struct {
	// Off disables it.
	Off bool
	// MaxBytes limits its size; 32 MiB if zero.
	MaxBytes int
}

// Inspect returns the state of this process. It works before Run and in standby replicas.
func (m *Manager) Inspect() model.Source { return &source{m} }

// source implements model.CallSource for a Manager.
type source struct{ manager *Manager }

// Name implements model.Source.
func (s *source) Name() string { return s.manager.name() }

func (m *Manager) name() string { return cmp.Or(m.options.Name, programName) }

// Process implements model.Source.
func (s *source) Process(context.Context) (model.Process, error) {
	m := s.manager
	p := model.Process{
		Name: m.name(), Version: m.options.Version, Instance: serving.InstanceName(), Started: m.started,
		LeaderElection: m.options.LeaderElection.Enabled, IsLeader: m.leader.Leads(), Leader: m.leader.Leader(),
		HeapBytes: heapBytes(), Goroutines: runtime.NumGoroutine(),
		Selector: m.options.Selector, LogLevel: m.logLevel(), Watches: m.watches(), History: m.history.Stats(),
		Series: m.history.Series("", time.Now()),
	}
	for _, health := range m.controllers.health() {
		addQueue(&p.Queue, health.Queue)
	}
	return p, nil
}

// Requests implements model.Source.
func (s *source) Requests(ctx context.Context) (model.Requests, error) {
	all := s.manager.requests.Snapshot()
	all.User = rbac.Username(ctx, s.manager.client)
	return all, nil
}

// heapBytes returns the bytes of live objects.
func heapBytes() uint64 {
	sample := []runtimemetrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	runtimemetrics.Read(sample)
	if sample[0].Value.Kind() != runtimemetrics.KindUint64 {
		return 0
	}
	return sample[0].Value.Uint64()
}

func (m *Manager) watches() []model.Watch {
	all := []model.Watch{}
	for _, w := range m.store.Stats() {
		all = append(all, model.Watch{
			Selection: w.Selection.String(), Kind: object.KindOf(w.Selection.Resource), Namespace: w.Selection.Namespace,
			Objects: w.Objects, Bytes: w.Bytes, Synced: w.Synced, Error: failure.Text(w.Err),
		})
	}
	return all
}

func addQueue(sum *model.Queue, s queue.Stats) {
	sum.Queued += s.Queued()
	sum.Active += s.Active
	sum.BackingOff += s.Backoff
	sum.Scheduled += s.Delayed
	sum.Oldest = max(sum.Oldest, s.OldestWait)
}

// Objects implements model.Source.
func (s *source) Objects(_ context.Context, controller string, q model.Query) (model.Page, error) {
	r := s.manager.controllers.snapshot(controller)
	if r == nil {
		return model.Page{}, fmt.Errorf("controller %q: %w", controller, failure.ErrNotFound)
	}
	var all []model.ManagedObject
	if r.running != nil {
		for _, w := range r.running.objectWorkers() {
			for _, objectState := range w.ObjectStates() {
				all = append(all, model.ManagedObject{Resource: w.Resource(), ObjectState: objectState})
			}
		}
	}
	page := model.NewPage(all, q)
	for i := range page.Objects {
		page.Objects[i].Controller, page.Objects[i].Process = controller, s.Name()
	}
	return page, nil
}

// States implements model.Source.
func (s *source) States(_ context.Context, ref object.Ref) ([]model.ObjectState, error) {
	all := []model.ObjectState{}
	key := queue.Key{Namespace: ref.Namespace, Name: ref.Name}
	for _, r := range s.manager.controllers.runningControllers() {
		for _, w := range r.objectWorkers() {
			if !matchesKind(ref, w.Resource()) {
				continue
			}
			objectState, ours := w.ObjectState(key)
			if !ours || ref.UID != "" && ref.UID != objectState.Object.UID() {
				continue
			}
			words := (&model.ManagedObject{Resource: w.Resource(), ObjectState: objectState}).View()
			words.Controller, words.Process, words.ChildStates = r.Name(), s.Name(), childrenOf(w, objectState.Object)
			all = append(all, words)
		}
	}
	all = append(all, s.suspended(ref)...)
	slices.SortFunc(all, func(a, b model.ObjectState) int { return cmp.Compare(a.Controller, b.Controller) })
	return all, nil
}

// suspended returns the suspended controllers of a kind.
func (s *source) suspended(ref object.Ref) (all []model.ObjectState) {
	for _, one := range s.manager.controllers.snapshots() {
		of := func(k object.Kind) bool {
			return ref.Group == k.Group && (ref.Kind.Kind == k.Kind || ref.Kind.Kind == "" && ref.Plural == k.Plural)
		}
		if one.suspended && slices.ContainsFunc(one.kinds.managed, of) {
			all = append(all, model.ObjectState{Ref: ref, State: model.StateUnknown, Suspended: true, Controller: one.name,
				Process: s.Name()})
		}
	}
	return all
}

// matchesKind reports whether a reference is of a resource, in any version.
func matchesKind(ref object.Ref, resource object.Resource) bool {
	return ref.Group == resource.Group && (ref.Kind.Kind == resource.Kind || ref.Kind.Kind == "" && ref.Plural == resource.Plural)
}

func childrenOf(w objectWorker, o *object.Object) []model.Child {
	family := []model.Child{}
	for _, child := range w.Children(o) {
		family = append(family, model.ChildOf(child))
	}
	return family
}

// Runs implements model.Source.
func (s *source) Runs(_ context.Context, ref object.Ref, limit int) ([]model.Run, error) {
	return s.withProcess(s.manager.history.Runs(ref, limit)), nil
}

// Reviews implements model.Source.
func (s *source) Reviews(_ context.Context, controller string, detailed bool) ([]model.Run, error) {
	if s.manager.controllers.snapshot(controller) == nil {
		return nil, fmt.Errorf("controller %q: %w", controller, failure.ErrNotFound)
	}
	return s.withProcess(s.manager.history.Reviews(controller, detailed)), nil
}

// Run implements model.Source.
func (s *source) Run(_ context.Context, id uint64) (model.Run, error) {
	run, err := s.manager.history.Run(id)
	run.Process = s.Name()
	return run, err
}

func (s *source) withProcess(runs []model.Run) []model.Run {
	for i := range runs {
		runs[i].Process = s.Name()
	}
	return runs
}

// errPlanUnsupported is returned by processes without Options.Plan.
var errPlanUnsupported = errors.New("this process has no planner; use `setpoint plan`")

// Plan implements model.Source.
func (s *source) Plan(ctx context.Context, controller string, ref object.Ref, edited json.RawMessage) (model.Plan, error) {
	if s.manager.options.Plan == nil {
		return model.Plan{}, errPlanUnsupported
	}
	return s.manager.options.Plan(ctx, s.manager, controller, ref, edited)
}

// objectWorker is a worker that manages objects.
type objectWorker interface {
	worker
	// Resource is the kind of the objects.
	Resource() object.Resource
	// ObjectStates returns the state of each object, ObjectState that of one.
	ObjectStates() []record.ObjectState
	ObjectState(key queue.Key) (record.ObjectState, bool)
	// Children returns the children of an object.
	Children(o *object.Object) []record.Child
}

// objectWorkers returns the workers that manage objects.
func (r *runningController) objectWorkers() []objectWorker {
	var all []objectWorker
	for _, w := range r.workers {
		if c, states := w.(objectWorker); states {
			all = append(all, c)
		}
	}
	return all
}
