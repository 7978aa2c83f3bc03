package setpoint

import (
	"maps"
	"slices"
	"sync"
)

// inFlight are the calls of functions that have not returned.
type inFlight struct {
	mu    sync.Mutex
	calls map[*inFlightCall]struct{}
}

// inFlightCall is a call of one function for one object.
type inFlightCall struct {
	// role and name identify the function, such as "daemon" and "watch".
	role, name string
	object     *objectContext
}

func (w *inFlightCall) String() string { return w.role + " " + w.name + " of " + w.object.ref() }

func (u *inFlight) begin(what, name string, of *objectContext) *inFlightCall {
	w := &inFlightCall{what, name, of}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.calls == nil {
		u.calls = map[*inFlightCall]struct{}{}
	}
	u.calls[w] = struct{}{}
	return w
}

func (u *inFlight) end(w *inFlightCall) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.calls, w)
}

// names are sorted.
func (u *inFlight) names() []string {
	u.mu.Lock()
	defer u.mu.Unlock()
	var all []string
	for w := range maps.Keys(u.calls) {
		all = append(all, w.String())
	}
	slices.Sort(all)
	return all
}
