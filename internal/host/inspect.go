package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	runtimemetrics "runtime/metrics"
	"slices"
	"time"

	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/queue"
	"github.com/setpoint-dev/setpoint/internal/trace"
)

// History says how much is kept of what controllers did.
type History struct {
	// Off has nothing kept.
	Off bool
	// MaxBytes is how much may be kept in all; 32 MiB if zero.
	MaxBytes int
}

// Inspect is what can be read of this process. It may be read whether this Host
// leads or not, and before it runs.
func (h *Host) Inspect() inspect.Source { return &source{h} }

// source reads a Host.
type source struct{ host *Host }

// Name implements inspect.Source.
func (s *source) Name() string { return s.host.name() }

func (h *Host) name() string { return cmp.Or(h.options.Name, ownName) }

// Process implements inspect.Source.
func (s *source) Process(context.Context) (inspect.Process, error) {
	h := s.host
	p := inspect.Process{
		Name: h.name(), Version: h.options.Version, Instance: instance(), Started: h.started,
		Elects: h.options.LeaderElection.Enabled, Leads: h.office.leads(), Leader: h.office.leader(),
		HeapBytes: heapBytes(), Goroutines: runtime.NumGoroutine(),
		Selector: h.options.Selector, Watches: h.watchesNow(), Book: h.book.Stats(), Series: h.book.Series("", time.Now()),
	}
	for _, health := range h.fleet.health() {
		addQueue(&p.Queue, health.Queue)
	}
	return p, nil
}

// heapBytes is what live objects take.
func heapBytes() uint64 {
	sample := []runtimemetrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	runtimemetrics.Read(sample)
	if sample[0].Value.Kind() != runtimemetrics.KindUint64 {
		return 0
	}
	return sample[0].Value.Uint64()
}

func (h *Host) watchesNow() []inspect.Watch {
	all := []inspect.Watch{}
	for _, w := range h.store.Stats() {
		all = append(all, inspect.Watch{
			Selection: w.Selection.String(), Kind: inspect.KindOf(w.Selection.Resource), Namespace: w.Selection.Namespace,
			Objects: w.Objects, Bytes: w.Bytes, Synced: w.Synced, Error: textOf(w.Err),
		})
	}
	return all
}

func addQueue(sum *inspect.Queue, s queue.Stats) {
	sum.Queued += s.Queued()
	sum.Working += s.Held
	sum.Retrying += s.Backoff
	sum.Delayed += s.Delayed
	sum.Oldest = max(sum.Oldest, s.OldestWait)
}

// Objects implements inspect.Source.
func (s *source) Objects(_ context.Context, controller string, q inspect.Query) (inspect.Page, error) {
	r := s.host.fleet.called(controller)
	if r == nil {
		return inspect.Page{}, fmt.Errorf("controller %q: %w", controller, inspect.ErrNotFound)
	}
	var all []inspect.Subject
	if r.running != nil {
		for _, w := range r.running.carers() {
			for _, care := range w.Cares() {
				all = append(all, inspect.Subject{Resource: w.Resource(), Care: care})
			}
		}
	}
	page := inspect.PageOf(all, q)
	if r.running != nil && len(r.running.carers()) == 0 && r.running.Admission != nil {
		page = s.host.book.ReviewsPage(controller, q)
	}
	for i := range page.Objects {
		page.Objects[i].Controller, page.Objects[i].Process = controller, s.Name()
	}
	return page, nil
}

// About implements inspect.Source.
func (s *source) About(_ context.Context, ref inspect.Ref) ([]inspect.Care, error) {
	all := []inspect.Care{}
	key := queue.Key{Namespace: ref.Namespace, Name: ref.Name}
	for _, r := range s.host.fleet.atWork() {
		for _, w := range r.carers() {
			if !is(ref, w.Resource()) {
				continue
			}
			care, ours := w.Care(key)
			if !ours || ref.UID != "" && ref.UID != care.Object.UID() {
				continue
			}
			words := (&inspect.Subject{Resource: w.Resource(), Care: care}).Words()
			words.Controller, words.Process, words.Family = r.Name(), s.Name(), familyOf(w, care.Object)
			all = append(all, words)
		}
	}
	all = append(all, s.suspended(ref)...)
	slices.SortFunc(all, func(a, b inspect.Care) int { return cmp.Compare(a.Controller, b.Controller) })
	return all, nil
}

// suspended are the controllers of a kind that do nothing at present.
func (s *source) suspended(ref inspect.Ref) (all []inspect.Care) {
	for _, one := range s.host.fleet.subjects() {
		of := func(k inspect.Kind) bool {
			return ref.Group == k.Group && (ref.Kind.Kind == k.Kind || ref.Kind.Kind == "" && ref.Plural == k.Plural)
		}
		if one.suspended && slices.ContainsFunc(one.kinds, of) {
			all = append(all, inspect.Care{Ref: ref, State: inspect.NotKnown, Suspended: true, Controller: one.name, Process: s.Name()})
		}
	}
	return all
}

// is says whether an object is of a kind that is served so, in whatever version.
func is(ref inspect.Ref, resource object.Resource) bool {
	return ref.Group == resource.Group && (ref.Kind.Kind == resource.Kind || ref.Kind.Kind == "" && ref.Plural == resource.Plural)
}

func familyOf(w carer, o *object.Object) []inspect.Child {
	family := []inspect.Child{}
	for _, child := range w.Family(o) {
		family = append(family, inspect.ChildOf(child))
	}
	return family
}

// Runs implements inspect.Source.
func (s *source) Runs(_ context.Context, ref inspect.Ref, limit int) ([]inspect.Run, error) {
	return s.from(s.host.book.Runs(ref, limit)), nil
}

// Run implements inspect.Source.
func (s *source) Run(_ context.Context, id uint64) (inspect.Run, error) {
	run, err := s.host.book.Run(id)
	run.Process = s.Name()
	return run, err
}

func (s *source) from(runs []inspect.Run) []inspect.Run {
	for i := range runs {
		runs[i].Process = s.Name()
	}
	return runs
}

// errNoPlans is what is said where nobody can plan.
var errNoPlans = errors.New("this process does not plan; `setpoint plan` does")

// Plan implements inspect.Source.
func (s *source) Plan(ctx context.Context, controller string, ref inspect.Ref) (inspect.Plan, error) {
	if s.host.options.Plan == nil {
		return inspect.Plan{}, errNoPlans
	}
	return s.host.options.Plan(ctx, s.host, controller, ref)
}

// carer is a worker that cares for objects.
type carer interface {
	worker
	// Resource is the kind of the objects.
	Resource() object.Resource
	// Cares says how each of them is doing, Care how one is.
	Cares() []trace.Care
	Care(key queue.Key) (trace.Care, bool)
	// Family are the children of one.
	Family(o *object.Object) []trace.Child
}

// carers are the workers that care for objects.
func (r *running) carers() []carer {
	var all []carer
	for _, w := range r.controllers {
		if c, cares := w.(carer); cares {
			all = append(all, c)
		}
	}
	return all
}
