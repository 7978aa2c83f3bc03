package explore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/setpoint-dev/setpoint/internal/explore/graph"
	"github.com/setpoint-dev/setpoint/internal/explore/loop"
	"github.com/setpoint-dev/setpoint/internal/explore/outcome"
	"github.com/setpoint-dev/setpoint/internal/explore/property"
	"github.com/setpoint-dev/setpoint/internal/explore/state"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/memory"
)

// batch is how many states are expanded before their results are merged.
const batch = 2048

// search explores the states of a system. Layers with fewer edits, crashes and faults come first, and within a layer
// smaller depths. The result does not depend on the number of workers: they expand, and one goroutine merges in order.
type search struct {
	*state.Space
	*graph.Graph

	options Options
	workers []*state.Worker
	// initial is what is stored at the beginning.
	initial *state.Contents
	began   time.Time
	took    time.Duration
	// pending are the nodes to expand, by layer and depth.
	pending [][][]uint32
	layer   int
	depth   int
	// stopped says why the search ended before everything was explored; empty if it was.
	stopped string
	found   []*found
	ends    *outcome.Set
	// creators are the objects whose runs have created one of a name.
	creators map[*state.Name][]*state.Name
	// rests are what is stored in states of rest, by number.
	rests map[uint32]bool
	// notes are those of each layer.
	notes []notes
	shown time.Time
	// graphChecked is set once the properties that are read from the graph were checked.
	graphChecked bool
	// nextCheck is the number of states at which the graph is checked while it grows, lastState the one at which a search
	// ends that has found a violation; 0 for none.
	nextCheck, lastState int
}

// explore runs the search until the context ends.
func (s *search) explore(ctx context.Context) error {
	if err := s.run(ctx); err != nil && ctx.Err() == nil {
		return err
	}
	if ctx.Err() != nil {
		s.stopped = s.limit(ctx)
	}
	s.took = time.Since(s.began)
	return nil
}

func newSearch(options Options) (*search, error) {
	options = options.withDefaults()
	if err := options.Bounds.Check(); err != nil {
		return nil, err
	}
	workers, initial, err := state.Begin(options.System, options.Bounds.budget(), options.Workers)
	if err != nil {
		return nil, err
	}
	layers := options.Bounds.Edits + options.Bounds.Crashes + options.Bounds.Faults + 1
	s := &search{
		Space: workers[0].Space, Graph: graph.New(initial, layers, workers[0].Effect), options: options, workers: workers,
		initial: initial.Stored, began: time.Now(), pending: make([][][]uint32, layers), notes: make([]notes, layers), ends: outcome.New(),
		creators: map[*state.Name][]*state.Name{}, rests: map[uint32]bool{}, nextCheck: firstCheck,
	}
	s.push(0)
	for _, f := range s.BrokenIn(initial.Stored) {
		s.violated(f, []uint32{0}, -1)
	}
	return s, nil
}

// push adds a node to those that are to be expanded.
func (s *search) push(id uint32) {
	n := &s.Nodes[id]
	layer := &s.pending[n.State.Spent.Total()]
	for len(*layer) <= int(n.Depth) {
		*layer = append(*layer, nil)
	}
	(*layer)[n.Depth] = append((*layer)[n.Depth], id)
}

// run explores layer by layer, until all is explored, or one in which something is violated.
func (s *search) run(ctx context.Context) error {
	for s.layer = range s.pending {
		if err := s.exploreLayer(ctx); err != nil {
			return err
		}
		if errors.Is(ctx.Err(), context.Canceled) {
			return nil // What is left to check would call hooks.
		}
		s.checkLayer()
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
			done, err := s.expandAll(ctx, ids[:min(batch, len(ids))])
			if err != nil {
				return err
			}
			ids = ids[done:]
		}
		s.pending[s.layer][s.depth] = nil
		if s.stopped = s.enough(); s.stopped != "" {
			return nil
		}
	}
	return nil
}

// expandAll expands nodes in parallel, and merges the results in order. It returns how many it has expanded: slow hooks
// hold up neither the end nor the progress.
func (s *search) expandAll(ctx context.Context, ids []uint32) (int, error) {
	results := make([][]state.Transition, len(ids))
	var next atomic.Int64
	var all sync.WaitGroup
	began := time.Now()
	for _, w := range s.workers {
		all.Go(func() {
			defer func() { w.Err = orPanic(w.Err, recover()) }()
			for ctx.Err() == nil && w.Err == nil && time.Since(began) < pace {
				i := next.Add(1) - 1
				if i >= int64(len(ids)) {
					break
				}
				if n := &s.Nodes[ids[i]]; !n.Expanded {
					results[i] = w.Expand(s.Unpack(n.State))
				}
			}
		})
	}
	all.Wait()
	if err := s.failure(); err != nil {
		return 0, err
	}
	done := min(int(next.Load()), len(ids))
	for i, id := range ids[:done] {
		s.merge(id, results[i])
	}
	s.showProgress()
	return done, nil
}

// orPanic returns a recovered panic as an error, else the other one: a defect of ours must not take the other tests of a run with
// it. The states are whole nevertheless: all locks are deferred.
func orPanic(err error, recovered any) error {
	if recovered != nil {
		return failure.FromPanic("internal error in Setpoint", recovered)
	}
	return err
}

func (s *search) failure() error {
	for _, w := range s.workers {
		if w.Err != nil {
			return w.Err
		}
	}
	return nil
}

// merge adds the steps from a node.
func (s *search) merge(id uint32, steps []state.Transition) {
	if s.Nodes[id].Expanded {
		return
	}
	s.Nodes[id].Expanded = true
	edges := make([]graph.Edge, len(steps))
	for i := range steps {
		to, added := s.Add(steps[i].To.Pack(), id, i)
		if added || s.Shorten(to, id, i) {
			s.push(to)
		}
		edges[i] = graph.Edge{To: to, Effect: steps[i].Effect}
		s.noteCreator(s.Effect(steps[i].Effect))
		for _, f := range steps[i].Findings {
			s.violated(f, s.Path(id), i)
		}
	}
	s.Nodes[id].Edges = edges
	s.Steps += len(steps)
}

// limit returns which limit is reached; empty if none is.
func (s *search) limit(ctx context.Context) string {
	bounds := s.options.Bounds
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return fmt.Sprintf("the time is over (%s)", bounds.Time)
	case ctx.Err() != nil:
		return "it was interrupted"
	case len(s.Nodes) >= bounds.States:
		return fmt.Sprintf("the limit of states is reached (%d)", bounds.States)
	case memory.Heap() >= bounds.Memory:
		return fmt.Sprintf("the limit of memory is reached (%d MiB)", bounds.Memory>>20)
	}
	return ""
}

// showProgress reports how far the search is, about every second.
func (s *search) showProgress() {
	if time.Since(s.shown) < pace {
		return
	}
	s.shown = time.Now()
	s.options.Progress(Progress{States: len(s.Nodes), Deviations: s.layer, All: len(s.pending) - 1, Depth: s.depth,
		Elapsed: time.Since(s.began)})
}

// pace is how often limits are looked at and progress is shown, also while hooks are slow.
const pace = time.Second

// Progress is how far a search is.
type Progress struct {
	States int
	// Deviations is the number of edits, crashes and faults that is being explored, of All.
	Deviations, All int
	Depth           int
	Elapsed         time.Duration
}

// String returns such as "12000 states, 6000/s, depth 14, 1 of 3 edits, crashes and faults".
func (p Progress) String() string {
	return fmt.Sprintf("%d states, %.0f/s, depth %d, %d of %d edits, crashes and faults",
		p.States, float64(p.States)/max(p.Elapsed.Seconds(), 0.001), p.Depth, p.Deviations, p.All)
}

// notes are what a report says besides violations.
type notes struct {
	// rests counts the states of rest; failing those in which a run fails, with the first error.
	rests, failing int
	failure        string
	// renewing is set if what is stored goes on changing because pods end and are replaced.
	renewing bool
}

// add adds the notes of another layer.
func (n *notes) add(more notes) {
	n.rests, n.failing = n.rests+more.rests, n.failing+more.failing
	n.failure, n.renewing = cmp.Or(n.failure, more.failure), n.renewing || more.renewing
}

// checkLayer checks what the graph of a layer shows.
func (s *search) checkLayer() {
	s.notes[s.layer] = notes{}
	layer := s.Layers[s.layer]
	parts := s.ComponentsOf(layer, s.IsNatural)
	for _, members := range parts.Bottoms() {
		s.checkBottom(members)
	}
	text, way := s.Recreated()
	s.violatedOn(way, property.NoRecreate, text)
	text, way = parts.Overwritten(layer, s.options.Bounds.Writes)
	s.violatedOn(way, property.Quiet, text)
	s.graphChecked = true
}

// checkBottom checks states that nothing but an edit, a crash or a fault leads out of. It is rest if what is stored
// stays the same: runs that write nothing may go on.
func (s *search) checkBottom(members []uint32) {
	at := s.Nodes[members[0]].State.Stored
	if !slices.ContainsFunc(members, func(id uint32) bool { return s.Nodes[id].State.Stored != at }) {
		s.rested(members[0])
		return
	}
	inside := map[uint32]bool{}
	for _, id := range members {
		inside[id] = true
	}
	if cycle := s.CycleIn(members, inside); cycle != nil {
		s.neverRests(cycle)
		return
	}
	// It rests as long as no pod ends: new pods replace those that do.
	s.notes[s.layer].renewing = true
	for _, some := range s.ComponentsOf(members, s.KeepsPods).Bottoms() {
		s.rested(some[0])
	}
}

// rested checks a state of rest.
func (s *search) rested(id uint32) {
	s.notes[s.layer].rests++
	s.rests[s.Nodes[id].State.Stored] = true
	s.checkRest(id)
}

// neverRests records that states follow each other for ever.
func (s *search) neverRests(cycle []uint32) {
	nodes := s.Path(cycle[0])
	written := map[string]bool{}
	for i, id := range cycle[1:] {
		if e := s.Effect(s.EdgeBetween(cycle[i], id).Effect); e.Name != nil {
			written[e.Name.Ref.String()] = true
		}
	}
	f := property.Finding{Property: property.Settles,
		Text: fmt.Sprintf("it never comes to rest: the last %d steps repeat for ever, with writes of %s",
			len(cycle)-1, strings.Join(slices.Sorted(maps.Keys(written)), ", "))}
	s.violated(f, append(nodes, cycle[1:]...), -1).repeats = len(cycle) - 1
}

// Options of Explore. Controller, Server and Objects are required.
type Options struct {
	state.System

	// Names are those of the controllers, for stories.
	Names  []string
	Bounds Bounds
	// Unchecked are properties that are not meant to hold.
	Unchecked []property.Property
	// Memo has the responses of hooks, for the report; nil if there are none.
	Memo *loop.Memo
	// Restart starts the processes of the hooks once more, until stop is called; nil if that is not possible.
	Restart func(ctx context.Context) (programs loop.Programs, stop func(), err error)
	// Version is that of Setpoint, and Files are the digests of what is explored, for stories.
	Version string
	Files   map[string]string
	// Together explores objects together that have nothing in common.
	Together bool
	// Workers defaults to the number of cores.
	Workers int
	// NotVaried says what none of the edits changes, for the report.
	NotVaried []string
	// Passes are further searches with bounds of their own, whose violations are reported too.
	Passes []Pass
	// Progress is called about every second, from one goroutine.
	Progress func(Progress)

	// shared says what objects have in common that might have been explored apart.
	shared string
}

// Pass is a further search.
type Pass struct {
	// Name says what it explores, for the report.
	Name    string
	Options Options
}

// Bounds limit a search. Budgets of zero mean none of these steps; the other zeros mean the defaults.
type Bounds struct {
	Edits   int `json:"edits"`
	Crashes int `json:"crashes"`
	Faults  int `json:"faults"`
	// Time defaults to 30s.
	Time time.Duration `json:"time,omitempty"`
	// States defaults to 2,000,000.
	States int `json:"states,omitempty"`
	// Memory is the heap in bytes at which the search stops; 2 GiB by default.
	Memory uint64 `json:"memory,omitempty"`
	// Writes is how many writes of one object without an edit are too many; 20 by default.
	Writes int `json:"writes,omitempty"`
}

// DefaultBoundOfTime is how long a search may take.
const DefaultBoundOfTime = 30 * time.Second

func (o Options) withDefaults() Options {
	o.Workers = cmp.Or(o.Workers, runtime.GOMAXPROCS(0))
	o.Bounds.Time = cmp.Or(o.Bounds.Time, DefaultBoundOfTime)
	o.Bounds.States = cmp.Or(o.Bounds.States, 2_000_000)
	o.Bounds.Memory = cmp.Or(o.Bounds.Memory, 2<<30)
	o.Bounds.Writes = cmp.Or(o.Bounds.Writes, 20)
	if o.Progress == nil {
		o.Progress = func(Progress) {}
	}
	return o
}

// MaxBudget is the most edits, crashes or faults.
const MaxBudget = 20

// budget returns the steps that are limited.
func (b Bounds) budget() state.Budget {
	return state.Budget{Edits: uint8(b.Edits), Crashes: uint8(b.Crashes), Faults: uint8(b.Faults)}
}

// Check reports budgets that make no sense, by the names of their fields.
func (b Bounds) Check() error {
	for _, budget := range []struct {
		name  string
		value int
	}{{"edits", b.Edits}, {"crashes", b.Crashes}, {"faults", b.Faults}} {
		if budget.value < 0 || budget.value > MaxBudget {
			return fmt.Errorf("bounds.%s: must be from 0 to %d, is %d", budget.name, MaxBudget, budget.value)
		}
	}
	return nil
}
