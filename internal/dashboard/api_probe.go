package dashboard

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/setpoint-dev/setpoint/internal/dashboard/userclient"
)

// apiProbe knows whether the API server answers. However many pages want to know, it is
// asked once in a while.
type apiProbe struct {
	cluster *userclient.Cluster
	now     func() time.Time

	mu        sync.Mutex
	checkedAt time.Time
	err       error
}

// isDown says that the API server does not answer.
func (p *apiProbe) isDown(ctx context.Context) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.now().Sub(p.checkedAt) >= pollInterval*9/10 {
		// Whose page it was that asked is of no matter to the others.
		p.err = p.cluster.Ping(context.WithoutCancel(ctx))
		p.checkedAt = p.now()
	}
	return errors.Is(p.err, userclient.ErrUnreachable)
}
