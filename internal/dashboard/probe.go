package dashboard

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/setpoint-dev/setpoint/internal/dashboard/userclient"
)

// apiProbe checks whether the API server responds. All pages share one check per interval.
type apiProbe struct {
	cluster *userclient.Cluster
	now     func() time.Time

	mu        sync.Mutex
	checkedAt time.Time
	err       error
}

// isDown reports whether the API server does not respond.
func (p *apiProbe) isDown(ctx context.Context) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.now().Sub(p.checkedAt) >= pollInterval*9/10 {
		// Other pages use the result too, so it must not depend on this request.
		p.err = p.cluster.Ping(context.WithoutCancel(ctx))
		p.checkedAt = p.now()
	}
	return errors.Is(p.err, userclient.ErrUnreachable)
}
