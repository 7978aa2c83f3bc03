package explore

import (
	"context"
	"errors"
	"fmt"
	"runtime/metrics"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// batch is how many states are expanded before their results are merged.
const batch = 2048

// search explores the states of an engine. Layers with fewer edits, crashes and faults come first, and within a layer
// smaller depths. The result does not depend on the number of workers: they expand, and one goroutine merges in order.
type search struct {
	*engine
	*graph

	workers []*worker
	began   time.Time
	// pending are the nodes to expand, by layer and depth.
	pending [][][]uint32
	layer   int
	depth   int
	// stopped says why the search ended before everything was explored; empty if it was.
	stopped string
	found   []*found
	ends    *ends
	notes   notes
	shown   time.Time
	// graphChecked is set once the properties that are read from the graph were checked.
	graphChecked bool
	// nextCheck is the number of states at which the graph is checked while it grows.
	nextCheck int
}

// found is a violation, and the way to it.
type found struct {
	finding

	// nodes are the states on the way.
	nodes []uint32
	// last is the step after the last of them that is wrong in itself; -1 if a state is.
	last int
	// repeats is how many steps at the end go on for ever, other a state to compare with; noParent for none.
	repeats int
	other   uint32
}

// Explore searches the states of the controllers. It returns what it has found when the context ends.
func Explore(ctx context.Context, options Options) (report *Report, err error) {
	err = guarded(func() error {
		report, err = explore(ctx, options)
		return err
	})
	return report, err
}

// explore is Explore without a guard.
func explore(ctx context.Context, options Options) (*Report, error) {
	s, err := newSearch(options)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, s.options.Bounds.Time)
	defer cancel()
	if err := s.run(ctx); err != nil && ctx.Err() == nil {
		return nil, err
	}
	if ctx.Err() != nil {
		s.stopped = s.limit(ctx)
	}
	return s.report(), nil
}

func newSearch(options Options) (*search, error) {
	options = options.withDefaults()
	if err := options.Bounds.check(); err != nil {
		return nil, err
	}
	e, err := newEngine(options)
	if err != nil {
		return nil, err
	}
	s := &search{engine: e, began: time.Now(), ends: newEnds(), nextCheck: firstCheck}
	for range options.Workers {
		w, err := s.newWorker()
		if err != nil {
			return nil, err
		}
		s.workers = append(s.workers, w)
	}
	raw, err := s.storeObjects()
	if err != nil {
		return nil, err
	}
	initial := s.workers[0].initial(raw)
	bounds := options.Bounds
	layers := bounds.Edits + bounds.Crashes + bounds.Faults + 1
	s.graph, s.pending = newGraph(initial, layers), make([][][]uint32, layers)
	s.push(0)
	for _, f := range s.brokenIn(initial.stored) {
		s.violated(f, []uint32{0}, -1)
	}
	return s, s.workers[0].err
}

// storeObjects creates the initial objects.
func (e *engine) storeObjects() (Stored, error) {
	var raw Stored
	for _, o := range e.options.Objects {
		after, err := e.options.Server.Edit(raw, Edit{Object: o.Ref(), Create: o})
		if err != nil {
			return nil, fmt.Errorf("store %s: %w", o.Ref(), err)
		}
		raw = after
	}
	return raw, nil
}

// push adds a node to those that are to be expanded.
func (s *search) push(id uint32) {
	n := &s.nodes[id]
	layer := &s.pending[n.state.spent.total()]
	for len(*layer) <= int(n.depth) {
		*layer = append(*layer, nil)
	}
	(*layer)[n.depth] = append((*layer)[n.depth], id)
}

// run explores layer by layer, until something is violated or all is explored.
func (s *search) run(ctx context.Context) error {
	for s.layer = range s.pending {
		if err := s.exploreLayer(ctx); err != nil {
			return err
		}
		if errors.Is(ctx.Err(), context.Canceled) {
			return nil // What is left to check would call hooks.
		}
		if len(s.found) == 0 {
			s.checkLayer()
		}
		if err := s.failure(); err != nil {
			return err
		}
		if len(s.found) > 0 && s.stopped == "" && s.layer < len(s.pending)-1 {
			s.stopped = enoughFound
		}
		if s.stopped != "" {
			return nil
		}
	}
	return nil
}

// exploreLayer expands the nodes of a layer. The list of depths grows meanwhile.
func (s *search) exploreLayer(ctx context.Context) error {
	for s.depth = 0; s.depth < len(s.pending[s.layer]); s.depth++ {
		ids := s.pending[s.layer][s.depth]
		for len(ids) > 0 {
			if s.stopped = s.limit(ctx); s.stopped != "" {
				return nil
			}
			part := ids[:min(batch, len(ids))]
			ids = ids[len(part):]
			if err := s.expandAll(ctx, part); err != nil {
				return err
			}
		}
		s.pending[s.layer][s.depth] = nil
		if s.stopped = s.enough(); s.stopped != "" {
			return nil
		}
	}
	return nil
}

// enough reports whether a violation ends the search: what follows would only have longer stories.
func (s *search) enough() string {
	switch {
	case s.options.Memo != nil && len(s.options.Memo.Differences()) > 0 && !slices.Contains(s.options.Unchecked, Deterministic):
		return "a hook is not deterministic"
	case len(s.found) > 0:
		return enoughFound
	case len(s.nodes) < s.nextCheck:
		return ""
	}
	// An endless way must not hide what is violated on it.
	s.nextCheck = 2 * len(s.nodes)
	s.checkLayer()
	if len(s.found) > 0 {
		return enoughFound
	}
	return ""
}

// enoughFound says why a search ends at violations.
const enoughFound = "violations were found, and what follows would have longer stories"

// firstCheck is the number of states at which graphs are checked for the first time while they grow.
const firstCheck = 20_000

// expandAll expands nodes in parallel, and merges the results in order. A slow hook does not hold up the end: nodes
// that were not expanded by then stay as they are.
func (s *search) expandAll(ctx context.Context, ids []uint32) error {
	results := make([]*[]transition, len(ids))
	var next atomic.Int64
	var all sync.WaitGroup
	for _, w := range s.workers {
		all.Go(func() {
			if err := guarded(func() error {
				for i := next.Add(1) - 1; i < int64(len(ids)) && ctx.Err() == nil && w.err == nil; i = next.Add(1) - 1 {
					if n := &s.nodes[ids[i]]; !n.expanded {
						steps := w.expand(s.unpack(n.state))
						results[i] = &steps
					}
				}
				return nil
			}); err != nil {
				w.err = err
			}
		})
	}
	all.Wait()
	if err := s.failure(); err != nil {
		return err
	}
	for i, id := range ids {
		if results[i] != nil {
			s.merge(id, *results[i])
		}
	}
	s.showProgress()
	return nil
}

// failure returns the error of a worker.
func (s *search) failure() error {
	for _, w := range s.workers {
		if w.err != nil {
			return w.err
		}
	}
	return nil
}

// merge adds the steps from a node.
func (s *search) merge(id uint32, steps []transition) {
	if s.nodes[id].expanded {
		return
	}
	s.nodes[id].expanded = true
	edges := make([]edge, len(steps))
	for i := range steps {
		to, added := s.add(steps[i].to.pack(), id, i)
		if added || s.shorten(to, id, i) {
			s.push(to)
		}
		edges[i] = edge{to, steps[i].effect}
		for _, f := range steps[i].findings {
			s.violated(f, s.path(id), i)
		}
	}
	s.nodes[id].edges = edges
	s.steps += len(steps)
}

// violated records a violation, unless there is one of the same property.
func (s *search) violated(f finding, nodes []uint32, last int) *found {
	v := &found{finding: f, nodes: nodes, last: last, other: noParent}
	known := slices.ContainsFunc(s.found, func(one *found) bool { return one.property == f.property })
	if !known && !slices.Contains(s.options.Unchecked, f.property) {
		s.found = append(s.found, v)
	}
	return v
}

// limit returns which limit is reached; empty if none is.
func (s *search) limit(ctx context.Context) string {
	bounds := s.options.Bounds
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return fmt.Sprintf("the time is over (%s)", bounds.Time)
	case ctx.Err() != nil:
		return "it was interrupted"
	case len(s.nodes) >= bounds.States:
		return fmt.Sprintf("the limit of states is reached (%d)", bounds.States)
	case heap() >= bounds.Memory:
		return fmt.Sprintf("the limit of memory is reached (%d MiB)", bounds.Memory>>20)
	}
	return ""
}

// heap returns the bytes of live objects and of those that are still to be collected.
func heap() uint64 {
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

func (s *search) showProgress() {
	if time.Since(s.shown) < time.Second {
		return
	}
	s.shown = time.Now()
	pending := 0
	for _, layer := range s.pending {
		for _, ids := range layer {
			pending += len(ids)
		}
	}
	s.options.Progress(Progress{States: len(s.nodes), Steps: s.steps, Pending: pending, Depth: s.depth, Elapsed: time.Since(s.began)})
}
