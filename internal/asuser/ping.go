package asuser

import (
	"context"
	"errors"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
)

// pingLimit is how soon an API server is taken for gone that does not answer.
const pingLimit = 3 * time.Second

// Ping asks whether the API server answers at all: the error of one that does not
// wraps ErrUnreachable. What it answers does not count.
func (c *Cluster) Ping(ctx context.Context) error { return c.pulse.ping(ctx, pingLimit) }

// How long a request may take before it is asked whether the API server answers at all;
// how long that answer is waited for where the one before did not come, and for how long
// an answer that did not come is believed.
const (
	pulseAfter  = time.Second
	silentLimit = time.Second
	silentFor   = time.Second
	silentKnown = 30 * time.Second
)

// errSilent is why a request was given up that others wait for.
var errSilent = errors.New("it does not answer")

// pulse tells a slow answer from an API server that hangs: it accepts connections, and
// answers nothing. Without it each request to one takes as long as the longest answer may.
type pulse struct {
	rest   rest.Interface
	asking singleflight.Group

	mu sync.Mutex
	// silent is when the last ping was given up; zero once one was answered.
	silent time.Time
}

func newPulse(process rest.Interface) *pulse { return &pulse{rest: process} }

// watch ends a request when the API server answers nothing. The caller calls stop.
func (p *pulse) watch(ctx context.Context) (watched context.Context, stop func()) {
	watched, cancel := context.WithCancelCause(ctx)
	after := pulseAfter
	if p.silence() > 0 {
		after = 0
	}
	go func() {
		for pause(watched, after) {
			if p.beats(watched) != nil {
				cancel(errSilent)
				return
			}
			after = pulseAfter
		}
	}()
	return watched, func() { cancel(context.Canceled) }
}

// pause waits, and reports whether the request still does.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}

// beats asks whether the API server answers, once for all that want to know.
func (p *pulse) beats(ctx context.Context) error {
	limit := pingLimit
	switch silence := p.silence(); {
	case silence > 0 && silence < silentFor:
		return errSilent
	case silence > 0:
		limit = silentLimit
	}
	return together(ctx, &p.asking, "ping", func(ctx context.Context) error { return p.ping(ctx, limit) })
}

// silence is for how long the API server is known not to answer; 0 if it is not known.
func (p *pulse) silence() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if since := time.Since(p.silent); !p.silent.IsZero() && since < silentKnown {
		return max(since, 1)
	}
	return 0
}

// ping asks for the least there is. Whatever comes is an answer.
func (p *pulse) ping(ctx context.Context, limit time.Duration) error {
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	_, err := answer(limited, p.rest.Get().AbsPath("/version").SetHeader("Accept", asJSON))
	var status apierrors.APIStatus
	switch {
	case err == nil, errors.As(err, &status):
		p.note(time.Time{})
		return nil
	case ctx.Err() == nil:
		p.note(time.Now())
	}
	return err
}

func (p *pulse) note(silent time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.silent = silent
}
