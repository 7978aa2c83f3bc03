// Package child keeps pools of local processes that exchange lines with this program: it
// starts them on demand, gives each one call at a time, kills one that exceeds a limit, and
// ends those without work.
//
// It does not know what the lines mean.
package child

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	defaultStartAfter = 250 * time.Millisecond
	// beginBytes limits what a child writes in Begin, also lines for the log.
	beginBytes = 4 << 20
	// idleTimeout is how long a child without calls is kept.
	idleTimeout = 30 * time.Second
)

// Pool has the children of one program of one controller.
type Pool struct {
	config Config
	// turns has an element for each call that has, or starts, a child.
	turns chan struct{}
	// slow are the calls about objects that have taken long: they leave a turn to others.
	slow *slowCalls
	// ctx ends when the pool is closed.
	ctx   context.Context //nolint:containedctx // It is the lifetime of the pool.
	close context.CancelFunc
	// budget limits the log lines of all children together.
	budget lineBudget
	// starting counts children that make no calls yet.
	starting atomic.Int32

	mu   sync.Mutex
	idle []*worker // The most recently used is last.
	// waiting are the calls that wait for a child in use, in order.
	waiting []chan *worker
	live    map[*worker]struct{}
	backoff backoff
	// generation counts restarts.
	generation int
	starts     int
	cpu        time.Duration // of children that have exited
	// exiting counts children until their processes are gone.
	exiting sync.WaitGroup
}

// NewPool returns a pool without children.
func NewPool(c Config) *Pool {
	c.StartAfter, c.Owner = cmp.Or(c.StartAfter, defaultStartAfter), cmp.Or(c.Owner, c.Controller)
	p := &Pool{config: c, turns: make(chan struct{}, c.Limiter.each), slow: newSlowCalls(c.Limiter.each), live: map[*worker]struct{}{}}
	p.ctx, p.close = context.WithCancel(context.Background())
	c.Limiter.add(p)
	return p
}

// Close kills all children and waits until they are gone. Calls fail.
func (p *Pool) Close() {
	if p.ctx.Err() != nil {
		return
	}
	p.close()
	for _, each := range p.takeAllIdle() {
		each.kill(errClosed)
	}
	for range cap(p.turns) { // Those of calls are killed by their context.
		p.turns <- struct{}{}
	}
	p.exiting.Wait()
	p.config.Limiter.remove(p)
}

// Do lets exchange use a child, which no other call uses at the same time. It starts one if
// necessary, or waits until ctx ends. A child is killed if exchange returns an error.
func (p *Pool) Do(ctx context.Context, c Call, exchange func(*Conn) error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(p.ctx, func() { cancel(errClosed) })()
	waiting, stopWaiting := context.WithTimeoutCause(ctx, c.wait(), &WaitError{c.wait()})
	defer stopWaiting()
	leave, err := p.slow.enter(waiting, &c)
	if err != nil {
		return err
	}
	defer leave()
	select {
	case p.turns <- struct{}{}:
	case <-waiting.Done():
		return fmt.Errorf("all %d processes that the hook may have are in use: %w", cap(p.turns), context.Cause(waiting))
	}
	defer func() { <-p.turns }()
	one, err := p.take(waiting)
	if err != nil {
		return err
	}
	began := time.Now()
	err = one.do(ctx, c, exchange)
	p.slow.record(&c, time.Since(began))
	p.giveBack(one, err)
	return err
}

// take returns a child that nothing else uses, or starts one.
func (p *Pool) take(ctx context.Context) (*worker, error) {
	if one := p.takeIdle(); one != nil {
		return one, nil
	}
	if one := p.awaitReturned(ctx); one != nil {
		return one, nil
	}
	for {
		if one := p.takeIdle(); one != nil {
			return one, nil
		}
		p.mu.Lock()
		failed := p.backoff
		p.mu.Unlock()
		if err := failed.await(ctx); err != nil {
			return nil, err
		}
		got, err := p.config.Limiter.acquire(ctx, p.config.Owner, p.hasIdle)
		switch {
		case err != nil:
			return nil, err
		case got:
			return p.start(ctx)
		}
	}
}

// takeIdle returns the most recently used child that still runs, so that the others reach their
// idle timeout.
func (p *Pool) takeIdle() *worker {
	for {
		p.mu.Lock()
		if len(p.idle) == 0 {
			p.mu.Unlock()
			return nil
		}
		last := len(p.idle) - 1
		one := p.idle[last]
		p.idle = p.idle[:last]
		p.mu.Unlock()
		one.idleTimer.Stop()
		if p.isUsable(one) {
			return one
		}
	}
}

// isUsable kills a child that is not.
func (p *Pool) isUsable(one *worker) bool {
	err := one.check()
	if err == nil {
		return true
	}
	if errors.Is(err, errNoRequest) && p.config.Log != nil {
		p.config.Log(nil, "restarting the process: it "+err.Error())
	}
	one.kill(err)
	return false
}

func (p *Pool) takeAllIdle() []*worker {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := p.idle
	p.idle = nil
	return all
}

func (p *Pool) hasIdle() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.idle) > 0
}

// giveBack hands a child to the next call, makes it idle, or ends it.
func (p *Pool) giveBack(one *worker, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.backoff.record(err, one.calls)
	switch {
	case err != nil || one.isKilled():
		one.kill(err)
		p.handOver(nil)
	case p.ctx.Err() != nil || one.generation != p.generation || p.config.Limiter.wants(one, p.config.Owner):
		one.end()
		p.handOver(nil)
	case p.handOver(one):
	default:
		one.idleSince = time.Now()
		one.idleTimer = time.AfterFunc(idleTimeout, func() { p.endIdle(one) })
		p.idle = append(p.idle, one)
	}
}

// endIdle ends a child unless a call uses it.
func (p *Pool) endIdle(one *worker) {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := slices.Index(p.idle, one)
	if at < 0 {
		return
	}
	p.idle = slices.Delete(p.idle, at, at+1)
	one.end()
}

// start starts a child in a slot of the limiter.
func (p *Pool) start(ctx context.Context) (*worker, error) {
	p.starting.Add(1)
	defer p.starting.Add(-1)
	one, err := p.launch()
	if err != nil {
		p.config.Limiter.release(p.config.Owner)
		p.mu.Lock()
		defer p.mu.Unlock()
		p.backoff.fail()
		return nil, err
	}
	if p.config.Begin == nil {
		return one, nil
	}
	if err = one.do(ctx, Call{Timeout: p.config.BeginTimeout, MaxBytes: beginBytes}, p.config.Begin); err != nil {
		p.giveBack(one, err)
		if _, late := errors.AsType[*WaitError](err); late {
			err = fmt.Errorf("a new process of the hook did not start in time: %w", err)
		}
		return nil, err
	}
	return one, nil
}

// launch starts a process and follows it until it is gone.
func (p *Pool) launch() (*worker, error) {
	p.mu.Lock()
	generation := p.generation
	p.mu.Unlock()
	one, err := startWorker(&p.config, &p.budget)
	if err != nil {
		return nil, err
	}
	one.generation = generation
	p.mu.Lock()
	p.live[one] = struct{}{}
	p.starts++
	p.mu.Unlock()
	p.exiting.Go(func() {
		<-one.run.Exited()
		one.conn.Close()
		p.mu.Lock()
		delete(p.live, one)
		p.cpu += one.run.CPU()
		p.mu.Unlock()
		p.config.Limiter.release(p.config.Owner)
	})
	return one, nil
}

// Restart ends the children: those in calls after their calls. Calls that follow use new ones.
func (p *Pool) Restart() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.generation++
	p.backoff = backoff{}
	for _, each := range p.idle {
		each.end()
	}
	p.idle = nil
}

// awaitReturned waits for a child that another call uses; nil if no other call does, or none has returned one in
// time, so that this call needs a child of its own.
func (p *Pool) awaitReturned(ctx context.Context) *worker {
	returned := p.enqueue()
	if returned == nil {
		return nil
	}
	timer := time.NewTimer(p.config.StartAfter)
	defer timer.Stop()
	for {
		var one *worker
		select {
		case one = <-returned:
		case <-timer.C:
			if p.starting.Load() > 0 { // A busy machine starts programs slowly.
				timer.Reset(p.config.StartAfter)
				continue
			}
			one = p.dequeue(returned)
		case <-ctx.Done():
			one = p.dequeue(returned)
		}
		if one == nil || !p.isUsable(one) {
			return nil
		}
		return one
	}
}

// enqueue returns where a child is handed over, or nil.
func (p *Pool) enqueue() chan *worker {
	p.mu.Lock()
	defer p.mu.Unlock()
	const self = 1
	if others := len(p.turns) - len(p.waiting) - self; others <= 0 || len(p.idle) > 0 {
		return nil
	}
	returned := make(chan *worker, 1)
	p.waiting = append(p.waiting, returned)
	return returned
}

// dequeue ends a wait. It returns what was handed over in the meantime.
func (p *Pool) dequeue(returned chan *worker) *worker {
	p.mu.Lock()
	defer p.mu.Unlock()
	if at := slices.Index(p.waiting, returned); at >= 0 {
		p.waiting = slices.Delete(p.waiting, at, at+1)
		return nil
	}
	return <-returned
}

// handOver gives a child to the call that has waited for longest, or nil to let it start one. The caller has locked the pool.
func (p *Pool) handOver(one *worker) bool {
	if len(p.waiting) == 0 {
		return false
	}
	p.waiting[0] <- one
	p.waiting = slices.Delete(p.waiting, 0, 1)
	return true
}

func (p *Pool) figures() Figures {
	p.mu.Lock()
	defer p.mu.Unlock()
	f := Figures{Processes: len(p.live), Starts: p.starts, CPU: p.cpu}
	for one := range p.live {
		memory, cpu := usage(one.run.PID())
		f.MemoryBytes += memory
		f.CPU += cpu
	}
	return f
}
