package explore

import (
	"slices"
	"sync"
)

// run is a reconcile in flight, and what it does next.
type run struct {
	id      uint32
	process int
	item    Item
	view    *view
	// before is the run before its last exchange; nil at the beginning.
	before   *run
	exchange Exchange

	mu   sync.Mutex
	step *Step
	// request is that of the step; nil if the run ends.
	request *request
	// fresh reports whether the run knows the newest specs of what users keep, by what is stored.
	fresh map[uint32]bool
}

// request is a request with its number.
type request struct {
	id uint32
	Request
}

func (e *engine) requestOf(r *Request) *request {
	k := key(nil).text(r.Method).text(r.Target).text(r.ContentType).text(r.Accept).text(r.User)
	return e.requests.add(append(k, r.Body...), func(id uint32) *request { return &request{id, *r} })
}

// begin returns the run of an item.
func (e *engine) begin(i int, item Item, seen *view) *run {
	k := appendItem(key(nil).number(0).number(uint32(i)).number(seen.id), item)
	return e.runs.add(k, func(id uint32) *run { return &run{id: id, process: i, item: item, view: seen} })
}

// after returns the run after a response.
func (e *engine) after(r *run, response Response) *run {
	k := key(nil).number(1).number(r.id).number(uint32(response.Status))
	if response.Err != nil {
		k = k.text(response.Err.Error())
	}
	return e.runs.add(append(k, response.Body...), func(id uint32) *run {
		return &run{id: id, process: r.process, item: r.item, view: r.view, before: r, exchange: Exchange{r.request.Request, response}}
	})
}

// exchanges returns the requests of a run so far.
func (r *run) exchanges() []Exchange {
	var all []Exchange
	for ; r.before != nil; r = r.before {
		all = append(all, r.exchange)
	}
	slices.Reverse(all)
	return all
}

// next returns what a run does next.
func (w *worker) next(r *run) *Step {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.step != nil {
		return r.step
	}
	w.computed.steps.Add(1)
	step := w.processes[r.process].Step(Run{Item: r.item, Cached: r.view.objects(), Exchanges: r.exchanges()})
	if step.Err != nil && w.err == nil {
		w.err = step.Err
	}
	if step.Request != nil {
		r.request = w.requestOf(step.Request)
	}
	r.step = &step
	return r.step
}

// result is what a request leads to.
type result struct {
	after    *stored
	response Response
}

// do returns what a request leads to.
func (w *worker) do(at *stored, r *request) *result {
	at.mu.Lock()
	defer at.mu.Unlock()
	if known := at.done[r.id]; known != nil {
		return known
	}
	w.computed.requests.Add(1)
	after, response := w.options.Server.Do(at.raw(), r.Request)
	if at.done == nil {
		at.done = map[uint32]*result{}
	}
	at.done[r.id] = &result{w.storedFrom(after), response}
	return at.done[r.id]
}

// isFresh reports whether a run began with the newest specs of what users keep.
func (r *run) isFresh(at *stored, seeds map[*name]bool) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	fresh, known := r.fresh[at.id]
	if known {
		return fresh
	}
	fresh = true
	for n := range seeds {
		now, seen := at.get(n).version, r.view.get(n)
		fresh = fresh && (seen == nil || now != nil && seen.object.IntentDigest() == now.object.IntentDigest())
	}
	if r.fresh == nil {
		r.fresh = map[uint32]bool{}
	}
	r.fresh[at.id] = fresh
	return fresh
}
