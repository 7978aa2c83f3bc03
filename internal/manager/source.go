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

	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/inspect"
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
func (m *Manager) Inspect() inspect.Source { return &source{m} }

// source implements inspect.CallSource for a Manager.
type source struct{ manager *Manager }

// Name implements inspect.Source.
func (s *source) Name() string { return s.manager.name() }

func (m *Manager) name() string { return cmp.Or(m.options.Name, programName) }

// Process implements inspect.Source.
func (s *source) Process(context.Context) (inspect.Process, error) {
	m := s.manager
	p := inspect.Process{
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

// Requests implements inspect.Source.
func (s *source) Requests(ctx context.Context) (inspect.Requests, error) {
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

func (m *Manager) watches() []inspect.Watch {
	all := []inspect.Watch{}
	for _, w := range m.store.Stats() {
		all = append(all, inspect.Watch{
			Selection: w.Selection.String(), Kind: object.KindOf(w.Selection.Resource), Namespace: w.Selection.Namespace,
			Objects: w.Objects, Bytes: w.Bytes, Synced: w.Synced, Error: failure.Text(w.Err),
		})
	}
	return all
}

func addQueue(sum *inspect.Queue, s queue.Stats) {
	sum.Queued += s.Queued()
	sum.Active += s.Active
	sum.BackingOff += s.Backoff
	sum.Scheduled += s.Delayed
	sum.Oldest = max(sum.Oldest, s.OldestWait)
}

// Objects implements inspect.Source.
func (s *source) Objects(_ context.Context, controller string, q inspect.Query) (inspect.Page, error) {
	r := s.manager.controllers.snapshot(controller)
	if r == nil {
		return inspect.Page{}, fmt.Errorf("controller %q: %w", controller, failure.ErrNotFound)
	}
	var all []inspect.ManagedObject
	if r.running != nil {
		for _, w := range r.running.objectWorkers() {
			for _, objectState := range w.ObjectStates() {
				all = append(all, inspect.ManagedObject{Resource: w.Resource(), ObjectState: objectState})
			}
		}
	}
	page := inspect.NewPage(all, q)
	for i := range page.Objects {
		page.Objects[i].Controller, page.Objects[i].Process = controller, s.Name()
	}
	return page, nil
}

// States implements inspect.Source.
func (s *source) States(_ context.Context, ref object.Ref) ([]inspect.ObjectState, error) {
	all := []inspect.ObjectState{}
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
			words := (&inspect.ManagedObject{Resource: w.Resource(), ObjectState: objectState}).View()
			words.Controller, words.Process, words.ChildStates = r.Name(), s.Name(), childrenOf(w, objectState.Object)
			all = append(all, words)
		}
	}
	all = append(all, s.suspended(ref)...)
	slices.SortFunc(all, func(a, b inspect.ObjectState) int { return cmp.Compare(a.Controller, b.Controller) })
	return all, nil
}

// suspended returns the suspended controllers of a kind.
func (s *source) suspended(ref object.Ref) (all []inspect.ObjectState) {
	for _, one := range s.manager.controllers.snapshots() {
		of := func(k object.Kind) bool {
			return ref.Group == k.Group && (ref.Kind.Kind == k.Kind || ref.Kind.Kind == "" && ref.Plural == k.Plural)
		}
		if one.suspended && slices.ContainsFunc(one.kinds.managed, of) {
			all = append(all, inspect.ObjectState{Ref: ref, State: inspect.StateUnknown, Suspended: true, Controller: one.name,
				Process: s.Name()})
		}
	}
	return all
}

// matchesKind reports whether a reference is of a resource, in any version.
func matchesKind(ref object.Ref, resource object.Resource) bool {
	return ref.Group == resource.Group && (ref.Kind.Kind == resource.Kind || ref.Kind.Kind == "" && ref.Plural == resource.Plural)
}

func childrenOf(w objectWorker, o *object.Object) []inspect.Child {
	family := []inspect.Child{}
	for _, child := range w.Children(o) {
		family = append(family, inspect.ChildOf(child))
	}
	return family
}

// Runs implements inspect.Source.
func (s *source) Runs(_ context.Context, ref object.Ref, limit int) ([]inspect.Run, error) {
	return s.withProcess(s.manager.history.Runs(ref, limit)), nil
}

// Reviews implements inspect.Source.
func (s *source) Reviews(_ context.Context, controller string, detailed bool) ([]inspect.Run, error) {
	if s.manager.controllers.snapshot(controller) == nil {
		return nil, fmt.Errorf("controller %q: %w", controller, failure.ErrNotFound)
	}
	return s.withProcess(s.manager.history.Reviews(controller, detailed)), nil
}

// Run implements inspect.Source.
func (s *source) Run(_ context.Context, id uint64) (inspect.Run, error) {
	run, err := s.manager.history.Run(id)
	run.Process = s.Name()
	return run, err
}

func (s *source) withProcess(runs []inspect.Run) []inspect.Run {
	for i := range runs {
		runs[i].Process = s.Name()
	}
	return runs
}

// errPlanUnsupported is returned by processes without Options.Plan.
var errPlanUnsupported = errors.New("this process has no planner; use `setpoint plan`")

// Plan implements inspect.Source.
func (s *source) Plan(ctx context.Context, controller string, ref object.Ref, edited json.RawMessage) (inspect.Plan, error) {
	if s.manager.options.Plan == nil {
		return inspect.Plan{}, errPlanUnsupported
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
