package loop

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/setpoint-dev/setpoint/internal/cache"
	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/controller/composite"
	"github.com/setpoint-dev/setpoint/internal/controller/handler"
	"github.com/setpoint-dev/setpoint/internal/controller/handler/permit"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
	"github.com/setpoint-dev/setpoint/internal/queue"
	"github.com/setpoint-dev/setpoint/internal/record"
	"github.com/setpoint-dev/setpoint/internal/served"
)

// session is one life of the process: it starts with a view and ends with the call that began it.
type session struct {
	// view is what events have made. observed is how many own writes the cache had at the latest exchange.
	view     *View
	observed int
	cache    *cache.Manual
	workers  []worker
	observer *observer
	// outages are those that the process has heard of.
	outages []Outage
	// ends close the controllers, end the watches of indexes, and release the memory that functions share.
	ends []func()
}

// worker is a controller of the session.
type worker struct {
	*controller.Base

	run func(context.Context, Item) queue.Outcome
	// relate makes related objects known; nil if there are none.
	relate func(context.Context, queue.Key) error
}

// observer keeps the error of the latest run, and ignores all else.
type observer struct {
	controller.Unobserved

	err error
}

// Ran keeps the error of a run.
func (o *observer) Ran(run record.Run) { o.err = run.Err }

var silent = slog.New(slog.DiscardHandler)

// begin starts the controllers with the view in their cache. Nothing is queued yet.
func (p *Process) begin(view *View) *session {
	s := p.open(view, fixedTime)
	s.drain()
	return s
}

// open is begin with what the first lists have queued.
func (p *Process) open(view *View, clock func() time.Time) *session {
	s := &session{view: view, observer: &observer{}, outages: OutagesAmong(slices.Values(view.Seen(OutageResource)))}
	s.cache = cache.NewManual(s)
	s.index(p.programs)
	options := queue.Options{Now: clock, Random: func() float64 { return 0 }}
	for i, program := range p.programs.Compose {
		c := p.newComposite(s, i, options)
		w := worker{Base: c.Base, run: func(ctx context.Context, item Item) queue.Outcome { return c.RunItem(ctx, item.Item) }}
		if program.Customize != nil {
			w.relate = c.Relate
		}
		s.workers, s.ends = append(s.workers, w), append(s.ends, c.Close)
	}
	for i := range p.programs.Handle {
		c := p.newHandler(s, i, options)
		run := func(ctx context.Context, item Item) queue.Outcome { return c.RunItem(ctx, item.Item, item.events) }
		s.workers, s.ends = append(s.workers, worker{Base: c.Base, run: run}), append(s.ends, c.Close)
	}
	s.cache.List()
	s.cache.Observe(view.writes...)
	s.goOn()
	return s
}

// newComposite returns the controller of a program as it is compiled while kinds are not served.
func (p *Process) newComposite(s *session, i int, options queue.Options) *composite.Controller {
	program := p.programs.Compose[i]
	program.Children = markUnserved(s, program.Children, func(r *plan.Rule) *object.Resource { return &r.Resource })
	return composite.New(program, composite.Dependencies{Dependencies: p.tools(s, options)})
}

// newHandler returns the controller of a program as it is compiled while kinds are not served.
func (p *Process) newHandler(s *session, i int, options queue.Options) *handler.Controller {
	program, itself := p.programs.Handle[i], func(r *object.Resource) *object.Resource { return r }
	program.Owns, program.Reads = markUnserved(s, program.Owns, itself), markUnserved(s, program.Reads, itself)
	program.Writes = markUnserved(s, program.Writes, func(w *permit.Write) *object.Resource { return &w.Resource })
	program.Related = markUnserved(s, program.Related, func(r *handler.Related) *object.Resource { return &r.Resource })
	return handler.New(program, p.tools(s, options))
}

func (p *Process) tools(s *session, options queue.Options) controller.Dependencies {
	return controller.Dependencies{
		Store: s.cache.Cache, Resolve: s.resolver(p.options.Resolve), Writer: p.writer, Observer: s.observer,
		Unrecorded: true, Log: silent, Now: options.Now, QueueOptions: options, Sequential: true,
	}
}

// index fills the indexes of functions in Go, before anything reads them.
func (s *session) index(programs Programs) {
	if programs.Memory != nil {
		programs.Memory.Lock()
		s.ends = append(s.ends, programs.Memory.Unlock)
	}
	for _, watch := range programs.Indexes {
		end, err := watch(s.cache.Cache)
		if err != nil {
			s.release()                                 // Other sessions wait for the lock.
			panic("watch for an index: " + err.Error()) // Its selectors were compiled before.
		}
		s.ends = append(s.ends, end)
	}
}

// Seen is what events have said of a kind by now: a watch may be opened in the middle of a run.
func (s *session) Seen(resource object.Resource) []*object.Object { return s.view.Seen(resource) }

// deliver passes an event to the cache.
func (s *session) deliver(e Event) {
	s.view = s.view.After(e)
	s.cache.Deliver(e.Resource, e.Object, e.Deleted)
}

func (s *session) release() {
	for _, end := range slices.Backward(s.ends) {
		end()
	}
}

// drain takes everything that is queued.
func (s *session) drain() []Item {
	var items []Item
	for i, w := range s.workers {
		for w.Queue.Len() > 0 {
			item, more := w.Queue.Next(context.Background())
			if !more {
				break
			}
			w.Queue.Done(item.Key, queue.NoRequeue())
			item.Waited, item.Attempt = 0, 0
			items = append(items, Item{Item: item, Program: i})
		}
	}
	return items
}

// relateAll makes the related objects of all parents known. Parents whose customize hook fails have none.
func (s *session) relateAll(ctx context.Context) {
	for _, w := range s.workers {
		if w.relate == nil {
			continue
		}
		for _, o := range w.Objects() {
			_ = w.relate(ctx, controller.KeyOf(o))
		}
	}
	s.drain()
}

// goOn notes that an exchange was used.
func (s *session) goOn() { s.observed = len(s.cache.Writes()) }

// runItem runs the controller of an item. A panic is an error.
func (s *session) runItem(ctx context.Context, item Item) (outcome queue.Outcome, err error) {
	defer func() {
		if value := recover(); value != nil {
			err = failure.FromPanic("the run panicked", value)
		}
	}()
	return s.workers[item.Program].run(ctx, item), nil
}

// Failing returns why watches of a kind fail; nil if they do not.
func (s *session) Failing(resource object.Resource) error {
	for _, one := range s.outages {
		if one.Of.GroupKind() == resource.GroupKind() {
			return one.watchError()
		}
	}
	return nil
}

// resolver finds the kinds that customize hooks name.
func (s *session) resolver(known resolver) resolver {
	return func(ctx context.Context, apiVersion, plural string) (object.Resource, error) {
		for _, one := range s.outages {
			if one.What == Unserved && one.Of.APIVersion() == apiVersion && one.Of.Plural == plural {
				return object.Resource{}, fmt.Errorf("%s of %s: %w", plural, apiVersion, served.ErrNotServed)
			}
		}
		return known(ctx, apiVersion, plural)
	}
}

// resolver finds a kind by its plural.
type resolver = func(ctx context.Context, apiVersion, plural string) (object.Resource, error)

// markUnserved returns what names kinds with a mark at those that are not served.
func markUnserved[S ~[]T, T any](s *session, all S, kind func(*T) *object.Resource) S {
	if len(s.outages) == 0 {
		return all
	}
	all = slices.Clone(all)
	for i := range all {
		of := kind(&all[i])
		isOutage := func(o Outage) bool { return o.What == Unserved && o.Of.GroupKind() == of.GroupKind() }
		of.Unserved = of.Unserved || slices.ContainsFunc(s.outages, isOutage)
	}
	return all
}
