package userclient

import (
	"context"
	"errors"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
)

// pingTimeout is how soon an API server counts as unreachable. hangCheckAfter is how long a request may take before the
// API server is pinged, how long a result counts, and the timeout of a ping after one that failed.
const (
	pingTimeout    = 3 * time.Second
	hangCheckAfter = time.Second
)

// errNotResponding is the cause of canceled requests.
var errNotResponding = errors.New("it does not respond")

// hangDetector distinguishes slow responses from an API server that accepts connections and
// never responds. Without it, each request to such a server would take the full timeout.
type hangDetector struct {
	rest rest.Interface

	mu sync.Mutex
	// err is the error of the last ping.
	err       error
	checkedAt time.Time
}

// IsDown reports whether the API server does not respond at all.
func (c *Cluster) IsDown(ctx context.Context) bool { return c.hangs.check(ctx) != nil }

// withHangCheck cancels a request when the API server hangs. The caller calls stop.
func (p *hangDetector) withHangCheck(ctx context.Context) (watched context.Context, stop func()) {
	watched, cancel := context.WithCancelCause(ctx)
	go func() {
		p.mu.Lock()
		failed := p.err != nil
		p.mu.Unlock()
		_ = wait.PollUntilContextCancel(watched, hangCheckAfter, failed, func(ctx context.Context) (bool, error) {
			failed = p.check(ctx) != nil
			if failed {
				cancel(errNotResponding)
			}
			return failed, nil
		})
	}()
	return watched, func() { cancel(context.Canceled) }
}

// check makes the cheapest request, unless one was made a moment ago. Any response counts.
func (p *hangDetector) check(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if time.Since(p.checkedAt) < hangCheckAfter {
		return p.err
	}
	limit := pingTimeout
	if p.err != nil {
		limit = hangCheckAfter
	}
	// Other requests use the result too, so it must not depend on this one.
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	defer cancel()
	_, p.err = doRequest(limited, p.rest.Get().AbsPath("/version").SetHeader("Accept", mediaTypeJSON))
	if status := apierrors.APIStatus(nil); errors.As(p.err, &status) {
		p.err = nil
	}
	p.checkedAt = time.Now()
	return p.err
}
