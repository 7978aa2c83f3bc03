package child

import (
	"context"
	"slices"
	"time"
)

// awaitReturned waits for a child that another call uses; nil if no other call does, or none has returned one in
// time, so that this call needs a child of its own.
func (p *Pool) awaitReturned(ctx context.Context) *child {
	returned := p.enqueue()
	if returned == nil {
		return nil
	}
	timer := time.NewTimer(p.config.StartAfter)
	defer timer.Stop()
	for {
		var one *child
		select {
		case one = <-returned:
		case <-timer.C:
			if p.isStarting() { // A busy machine starts programs slowly.
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

func (p *Pool) isStarting() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.starting > 0
}

// enqueue returns where a child is handed over, or nil.
func (p *Pool) enqueue() chan *child {
	p.mu.Lock()
	defer p.mu.Unlock()
	const self = 1
	if others := len(p.turns) - len(p.waiting) - self; others <= 0 || len(p.idle) > 0 {
		return nil
	}
	returned := make(chan *child, 1)
	p.waiting = append(p.waiting, returned)
	return returned
}

// dequeue ends a wait. It returns what was handed over in the meantime.
func (p *Pool) dequeue(returned chan *child) *child {
	p.mu.Lock()
	defer p.mu.Unlock()
	if at := slices.Index(p.waiting, returned); at >= 0 {
		p.waiting = slices.Delete(p.waiting, at, at+1)
		return nil
	}
	return <-returned
}

// handOver gives a child to the call that has waited for longest, or nil to let it start one. The caller has locked the pool.
func (p *Pool) handOver(one *child) bool {
	if len(p.waiting) == 0 {
		return false
	}
	p.waiting[0] <- one
	p.waiting = slices.Delete(p.waiting, 0, 1)
	return true
}
