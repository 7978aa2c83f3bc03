package store

import "sync"

// health is whether a watch works, and if not, why.
type health struct {
	changed func(error)

	// telling keeps the order of what changed is told, which may ask for the
	// current error meanwhile.
	telling sync.Mutex

	mu  sync.Mutex
	err error
}

// report notes an outcome and passes it on if it says something new.
func (h *health) report(err error) {
	h.telling.Lock()
	defer h.telling.Unlock()
	if text(h.current()) != text(err) {
		h.set(err)
		h.changed(err)
	}
}

func (h *health) set(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.err = err
}

func (h *health) current() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.err
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
