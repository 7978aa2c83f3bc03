package setpoint

import (
	"maps"
	"slices"
	"sync"
)

// underway are the functions that are at work, each for its object.
type underway struct {
	mu    sync.Mutex
	works map[*work]struct{}
}

// work is what one function is at: of a call or a family.
type work struct {
	// what and name are those of the function, such as "daemon" and "watch".
	what, name string
	of         *statement
}

func (w *work) String() string { return w.what + " " + w.name + " of " + w.of.ref() }

// begin notes a work, until it ends.
func (u *underway) begin(what, name string, of *statement) *work {
	w := &work{what, name, of}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.works == nil {
		u.works = map[*work]struct{}{}
	}
	u.works[w] = struct{}{}
	return w
}

func (u *underway) end(w *work) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.works, w)
}

// names are those of all works, sorted.
func (u *underway) names() []string {
	u.mu.Lock()
	defer u.mu.Unlock()
	var all []string
	for w := range maps.Keys(u.works) {
		all = append(all, w.String())
	}
	slices.Sort(all)
	return all
}
