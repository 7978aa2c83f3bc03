package inspect

import (
	"context"
	"errors"
	"maps"
	"sync"
	"time"
)

// shortTimeout applies to a process for slowMemory after a timeout.
const (
	shortTimeout = 500 * time.Millisecond
	slowMemory   = 15 * time.Second
)

// Timeouts bound requests to processes. A process that is stopped or hangs still accepts connections.
type Timeouts struct {
	limit time.Duration

	mu   sync.Mutex
	slow map[Source]time.Time
}

// NewTimeouts returns Timeouts with a limit for each request.
func NewTimeouts(limit time.Duration) *Timeouts {
	return &Timeouts{limit: limit, slow: map[Source]time.Time{}}
}

type timeoutError struct{ process string }

func (e timeoutError) Error() string { return "the process " + e.process + " did not respond in time" }
func (e timeoutError) Unwrap() error { return context.DeadlineExceeded }

// Result is the result of one process.
type Result[T any] struct {
	Source Source
	Value  T
	Err    error
}

// QueryOne queries one process. A timeout error names the process and wraps context.DeadlineExceeded.
func QueryOne[T any](ctx context.Context, p *Timeouts, s Source, call func(context.Context, Source) (T, error)) (T, error) {
	limited, cancel := context.WithTimeout(ctx, p.timeoutFor(s, time.Now()))
	defer cancel()
	value, err := call(limited, s)
	late := errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil
	p.noteSlow(s, late, time.Now())
	if late {
		err = timeoutError{s.Name()}
	}
	return value, err
}

// QueryAll queries processes in parallel. The results are in their order.
func QueryAll[T any](ctx context.Context, p *Timeouts, all []Source, call func(context.Context, Source) (T, error)) []Result[T] {
	responses := make([]Result[T], len(all))
	var asking sync.WaitGroup
	for i, s := range all {
		asking.Go(func() {
			value, err := QueryOne(ctx, p, s, call)
			responses[i] = Result[T]{s, value, err}
		})
	}
	asking.Wait()
	return responses
}

func (p *Timeouts) timeoutFor(s Source, now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if at, known := p.slow[s]; known && now.Sub(at) < slowMemory {
		return min(p.limit, shortTimeout)
	}
	return p.limit
}

// noteSlow remembers when a process first timed out. After slowMemory it gets the full timeout again.
func (p *Timeouts) noteSlow(s Source, late bool, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	maps.DeleteFunc(p.slow, func(_ Source, at time.Time) bool { return now.Sub(at) >= slowMemory })
	if !late {
		delete(p.slow, s)
	} else if _, noted := p.slow[s]; !noted {
		p.slow[s] = now
	}
}
