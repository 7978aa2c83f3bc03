package ui

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/setpoint-dev/setpoint/internal/asuser"
)

// probe knows whether the API server answers. However many pages want to know, it is
// asked once in a while.
type probe struct {
	cluster *asuser.Cluster
	now     func() time.Time

	mu    sync.Mutex
	asked time.Time
	err   error
}

// gone says that the API server does not answer.
func (p *probe) gone(ctx context.Context) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.now().Sub(p.asked) >= liveLook*9/10 {
		// Whose page it was that asked is of no matter to the others.
		p.err = p.cluster.Ping(context.WithoutCancel(ctx))
		p.asked = p.now()
	}
	return errors.Is(p.err, asuser.ErrUnreachable)
}
