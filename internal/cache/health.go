package cache

import "sync"

// health is whether a watch works, and if not, why.
type health struct {
	onChange func(error)

	// notifyMu keeps the order of what changed is told, which may ask for the
	// current error meanwhile.
	notifyMu sync.Mutex

	mu  sync.Mutex
	err error
}

// report notes an outcome and passes it on if it says something new.
func (h *health) report(err error) {
	h.notifyMu.Lock()
	defer h.notifyMu.Unlock()
	if errorText(h.current()) != errorText(err) {
		h.set(err)
		h.onChange(err)
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

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
