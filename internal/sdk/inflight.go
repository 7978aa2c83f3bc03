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
type inFlight struct{ calls sync.Map }

// inFlightCall is a call of one function for one object.
type inFlightCall struct {
	// role and function identify the function, such as "daemon" and "watch".
	role, function string
	object         func() string
}

func (w *inFlightCall) String() string { return w.role + " " + w.function + " of " + w.object() }

// track tracks a call until end is called.
func (u *inFlight) track(w *inFlightCall) (end func()) {
	u.calls.Store(w, nil)
	return func() { u.calls.Delete(w) }
}

// names are sorted.
func (u *inFlight) names() []string {
	var all []string
	for w := range u.calls.Range {
		all = append(all, fmt.Sprint(w))
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
