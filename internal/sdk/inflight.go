package sdk

import (
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/setpoint-dev/setpoint/internal/call"
)

// inFlight are the calls of functions that have not returned.
type inFlight struct {
	mu    sync.Mutex
	calls map[*inFlightCall]struct{}
}

// inFlightCall is a call of one function for one object.
type inFlightCall struct {
	// role and function identify the function, such as "daemon" and "watch".
	role, function string
	object         func() string
}

func (w *inFlightCall) String() string { return w.role + " " + w.function + " of " + w.object() }

// track tracks a call until end is called.
func (u *inFlight) track(w *inFlightCall) (end func()) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.calls == nil {
		u.calls = map[*inFlightCall]struct{}{}
	}
	u.calls[w] = struct{}{}
	return func() {
		u.mu.Lock()
		defer u.mu.Unlock()
		delete(u.calls, w)
	}
}

// names are sorted.
func (u *inFlight) names() []string {
	u.mu.Lock()
	defer u.mu.Unlock()
	var all []string
	for w := range u.calls {
		all = append(all, w.String())
	}
	slices.Sort(all)
	return all
}

// programCode identifies this program, which is the same as long as the process runs.
func programCode() call.Code {
	digest := "program"
	if file, err := os.Executable(); err == nil {
		if info, err := os.Stat(file); err == nil {
			digest = fmt.Sprintf("%s %d %d", digest, info.Size(), info.ModTime().UnixNano())
		}
	}
	return call.Code{Digest: digest, Since: time.Now()}
}
