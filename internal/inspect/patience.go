package inspect

import (
	"context"
	"errors"
	"sync"
	"time"
)

// How long a process is waited for that did not answer in time lately, and for how long
// that counts against it.
const (
	shortPatience = 500 * time.Millisecond
	rememberLate  = 15 * time.Second
)

// Patience is how long processes are waited for. One that has been stopped, or hangs,
// still accepts questions: without a limit, whoever asks hangs with it.
type Patience struct {
	limit time.Duration

	mu   sync.Mutex
	late map[Source]time.Time
}

// NewPatience makes one by which a process may take so long for an answer.
func NewPatience(limit time.Duration) *Patience {
	return &Patience{limit: limit, late: map[Source]time.Time{}}
}

// lateError says that a process did not answer in time.
type lateError struct{ process string }

func (e lateError) Error() string { return "the process " + e.process + " does not answer in time" }
func (e lateError) Unwrap() error { return context.DeadlineExceeded }

// Answer is what one process said.
type Answer[T any] struct {
	Source Source
	Value  T
	Err    error
}

// AskOne asks one process. The error about one that does not answer in time names it,
// and wraps context.DeadlineExceeded.
func AskOne[T any](ctx context.Context, p *Patience, s Source, ask func(context.Context, Source) (T, error)) (T, error) {
	limited, cancel := context.WithTimeout(ctx, p.limitOf(s, time.Now()))
	defer cancel()
	value, err := ask(limited, s)
	late := errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil
	p.note(s, late, time.Now())
	if late {
		err = lateError{s.Name()}
	}
	return value, err
}

// AskAll asks several processes at the same time. The answers are in their order.
func AskAll[T any](ctx context.Context, p *Patience, all []Source, ask func(context.Context, Source) (T, error)) []Answer[T] {
	answers := make([]Answer[T], len(all))
	var asking sync.WaitGroup
	for i, s := range all {
		asking.Go(func() {
			value, err := AskOne(ctx, p, s, ask)
			answers[i] = Answer[T]{s, value, err}
		})
	}
	asking.Wait()
	return answers
}

// limitOf is how long a process is waited for now.
func (p *Patience) limitOf(s Source, now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if at, known := p.late[s]; known && now.Sub(at) < rememberLate {
		return min(p.limit, shortPatience)
	}
	return p.limit
}

// note remembers who was late, from the first time on: after a while it is waited for
// again, as it may be no more than slow.
func (p *Patience) note(s Source, late bool, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for each, at := range p.late {
		if now.Sub(at) >= rememberLate {
			delete(p.late, each)
		}
	}
	if !late {
		delete(p.late, s)
	} else if p.late[s].IsZero() {
		p.late[s] = now
	}
}
