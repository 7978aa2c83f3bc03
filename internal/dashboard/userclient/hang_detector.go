package userclient

import (
	"context"
	"errors"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
)

// pingTimeout is how soon an API server counts as unreachable.
const pingTimeout = 3 * time.Second

// Ping reports whether the API server responds at all. Its error wraps ErrUnreachable.
func (c *Cluster) Ping(ctx context.Context) error { return c.hangs.ping(ctx, pingTimeout) }

// How long a request may take before the API server is pinged; the ping timeout once it hangs;
// how soon to ping again; and how long a hang is remembered.
const (
	hangCheckAfter      = time.Second
	hungPingTimeout     = time.Second
	hungRecheckInterval = time.Second
	hungMaxAge          = 30 * time.Second
)

// errNotResponding is the cause of canceled requests.
var errNotResponding = errors.New("it does not respond")

// hangDetector distinguishes slow responses from an API server that accepts connections and
// never responds. Without it, each request to such a server would take the full timeout.
type hangDetector struct {
	rest  rest.Interface
	group singleflight.Group

	mu sync.Mutex
	// hungSince is when the last ping timed out; zero if it did not.
	hungSince time.Time
}

func newHangDetector(process rest.Interface) *hangDetector { return &hangDetector{rest: process} }

// withHangCheck cancels a request when the API server hangs. The caller calls stop.
func (p *hangDetector) withHangCheck(ctx context.Context) (watched context.Context, stop func()) {
	watched, cancel := context.WithCancelCause(ctx)
	after := hangCheckAfter
	if p.hungFor() > 0 {
		after = 0
	}
	go func() {
		for sleep(watched, after) {
			if p.check(watched) != nil {
				cancel(errNotResponding)
				return
			}
			after = hangCheckAfter
		}
	}()
	return watched, func() { cancel(context.Canceled) }
}

// sleep waits for d, and reports whether ctx is still alive.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}

// check pings the API server once for all callers.
func (p *hangDetector) check(ctx context.Context) error {
	limit := pingTimeout
	switch silence := p.hungFor(); {
	case silence > 0 && silence < hungRecheckInterval:
		return errNotResponding
	case silence > 0:
		limit = hungPingTimeout
	}
	return shareCall(ctx, &p.group, "ping", func(ctx context.Context) error { return p.ping(ctx, limit) })
}

// hungFor returns how long the API server has been hung; 0 if it is not.
func (p *hangDetector) hungFor() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if since := time.Since(p.hungSince); !p.hungSince.IsZero() && since < hungMaxAge {
		return max(since, 1)
	}
	return 0
}

// ping makes the cheapest request. Any response counts.
func (p *hangDetector) ping(ctx context.Context, limit time.Duration) error {
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	_, err := doRequest(limited, p.rest.Get().AbsPath("/version").SetHeader("Accept", mediaTypeJSON))
	var status apierrors.APIStatus
	switch {
	case err == nil, errors.As(err, &status):
		p.setHungSince(time.Time{})
		return nil
	case ctx.Err() == nil:
		p.setHungSince(time.Now())
	}
	return err
}

func (p *hangDetector) setHungSince(silent time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hungSince = silent
}
