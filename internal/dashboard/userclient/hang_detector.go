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

// pingTimeout is how soon an API server is taken for gone that does not answer.
const pingTimeout = 3 * time.Second

// Ping asks whether the API server answers at all: the error of one that does not
// wraps ErrUnreachable. What it answers does not count.
func (c *Cluster) Ping(ctx context.Context) error { return c.hangs.ping(ctx, pingTimeout) }

// How long a request may take before it is asked whether the API server answers at all;
// how long that answer is waited for where the one before did not come, and for how long
// an answer that did not come is believed.
const (
	hangCheckAfter      = time.Second
	hungPingTimeout     = time.Second
	hungRecheckInterval = time.Second
	hungMaxAge          = 30 * time.Second
)

// errNotResponding is why a request was given up that others wait for.
var errNotResponding = errors.New("it does not answer")

// hangDetector tells a slow answer from an API server that hangs: it accepts connections, and
// answers nothing. Without it each request to one takes as long as the longest answer may.
type hangDetector struct {
	rest  rest.Interface
	group singleflight.Group

	mu sync.Mutex
	// hungSince is when the last ping was given up; zero once one was answered.
	hungSince time.Time
}

func newHangDetector(process rest.Interface) *hangDetector { return &hangDetector{rest: process} }

// withHangCheck ends a request when the API server answers nothing. The caller calls stop.
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

// sleep waits, and reports whether the request still does.
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

// check asks whether the API server answers, once for all that want to know.
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

// hungFor is for how long the API server is known not to answer; 0 if it is not known.
func (p *hangDetector) hungFor() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if since := time.Since(p.hungSince); !p.hungSince.IsZero() && since < hungMaxAge {
		return max(since, 1)
	}
	return 0
}

// ping asks for the least there is. Whatever comes is an answer.
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
