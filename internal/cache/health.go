package cache

import (
	"sync"

	"github.com/setpoint-dev/setpoint/internal/failure"
)

// health is the error of a watch; nil while it works.
type health struct {
	onChange func(error)

	// notifyMu orders calls of onChange, which may read the current error.
	notifyMu sync.Mutex

	mu  sync.Mutex
	err error
}

// report stores an error and calls onChange if it differs.
func (h *health) report(err error) {
	h.notifyMu.Lock()
	defer h.notifyMu.Unlock()
	if failure.Text(h.current()) != failure.Text(err) {
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
