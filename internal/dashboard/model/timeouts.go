package model

import (
	"context"
	"errors"
	"sync"
	"time"
)

// How long a process is waited for that did not answer in time lately, and for how long
// that counts against it.
const (
	shortTimeout = 500 * time.Millisecond
	slowMemory   = 15 * time.Second
)

// Timeouts is how long processes are waited for. One that has been stopped, or hangs,
// still accepts questions: without a limit, whoever asks hangs with it.
type Timeouts struct {
	limit time.Duration

	mu   sync.Mutex
	slow map[Source]time.Time
}

// NewTimeouts makes one by which a process may take so long for an answer.
func NewTimeouts(limit time.Duration) *Timeouts {
	return &Timeouts{limit: limit, slow: map[Source]time.Time{}}
}

// timeoutError says that a process did not answer in time.
type timeoutError struct{ process string }

func (e timeoutError) Error() string { return "the process " + e.process + " did not respond in time" }
func (e timeoutError) Unwrap() error { return context.DeadlineExceeded }

// Result is what one process said.
type Result[T any] struct {
	Source Source
	Value  T
	Err    error
}

// QueryOne asks one process. The error about one that does not answer in time names it,
// and wraps context.DeadlineExceeded.
func QueryOne[T any](ctx context.Context, p *Timeouts, s Source, ask func(context.Context, Source) (T, error)) (T, error) {
	limited, cancel := context.WithTimeout(ctx, p.timeoutFor(s, time.Now()))
	defer cancel()
	value, err := ask(limited, s)
	late := errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil
	p.noteSlow(s, late, time.Now())
	if late {
		err = timeoutError{s.Name()}
	}
	return value, err
}

// QueryAll asks several processes at the same time. The answers are in their order.
func QueryAll[T any](ctx context.Context, p *Timeouts, all []Source, ask func(context.Context, Source) (T, error)) []Result[T] {
	answers := make([]Result[T], len(all))
	var asking sync.WaitGroup
	for i, s := range all {
		asking.Go(func() {
			value, err := QueryOne(ctx, p, s, ask)
			answers[i] = Result[T]{s, value, err}
		})
	}
	asking.Wait()
	return answers
}

// timeoutFor is how long a process is waited for now.
func (p *Timeouts) timeoutFor(s Source, now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if at, known := p.slow[s]; known && now.Sub(at) < slowMemory {
		return min(p.limit, shortTimeout)
	}
	return p.limit
}

// noteSlow remembers who was late, from the first time on: after a while it is waited for
// again, as it may be no more than slow.
func (p *Timeouts) noteSlow(s Source, late bool, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for each, at := range p.slow {
		if now.Sub(at) >= slowMemory {
			delete(p.slow, each)
		}
	}
	if !late {
		delete(p.slow, s)
	} else if p.slow[s].IsZero() {
		p.slow[s] = now
	}
}
