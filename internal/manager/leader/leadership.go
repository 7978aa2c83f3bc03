package leader

import (
	"context"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// Leadership tracks whether this replica leads. Work that needs leadership runs in
// WhileLeading, so that stop can wait for it.
type Leadership struct {
	// known is closed when the first leader is known.
	known    chan struct{}
	setKnown func()

	mu sync.Mutex
	// lease is the current one, or the next one to be acquired.
	lease *heldLease
	// leaderName is the identity of the leader, if known.
	leaderName string
}

// heldLease is one period of leadership.
type heldLease struct {
	acquired chan struct{}
	lost     context.Context //nolint:containedctx // It is that of the period, which lose ends.
	lose     context.CancelFunc
	active   sync.WaitGroup
}

// NewLeadership returns that of a replica that does not lead.
func NewLeadership() *Leadership {
	decided := make(chan struct{})
	return &Leadership{known: decided, setKnown: sync.OnceFunc(func() { close(decided) }), lease: newHeldLease()}
}

func newHeldLease() *heldLease {
	lost, lose := context.WithCancel(context.Background())
	return &heldLease{acquired: make(chan struct{}), lost: lost, lose: lose}
}

// start begins to lead.
func (l *Leadership) start() {
	close(l.current().acquired)
	l.setKnown()
}

// stop ends leadership. The returned channel is closed when all work has stopped.
func (l *Leadership) stop() (idle <-chan struct{}) {
	l.mu.Lock()
	past := l.lease
	l.lease = newHeldLease()
	past.lose()
	l.mu.Unlock()
	done := make(chan struct{})
	go func() {
		past.active.Wait()
		close(done)
	}()
	return done
}

// Leader returns the identity of the leader, if known.
func (l *Leadership) Leader() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.leaderName
}

func (l *Leadership) current() *heldLease {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lease
}

// Leads reports whether this replica leads.
func (l *Leadership) Leads() bool {
	select {
	case <-l.current().acquired:
		return true
	default:
		return false
	}
}

// WhileLeading calls do each time this replica leads, until ctx ends. The context of do ends
// with leadership, and do must return soon after.
func (l *Leadership) WhileLeading(ctx context.Context, do func(context.Context)) {
	for ctx.Err() == nil {
		t := l.current()
		select {
		case <-t.acquired:
			l.runOnce(ctx, t, do)
		case <-ctx.Done():
		}
	}
}

// runOnce calls do for one period of leadership.
func (l *Leadership) runOnce(ctx context.Context, t *heldLease, do func(context.Context)) {
	l.mu.Lock()
	ended := l.lease != t
	if !ended {
		t.active.Add(1)
	}
	l.mu.Unlock()
	if ended {
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(t.lost, cancel)()
	do(ctx)
	t.active.Done()
	<-ctx.Done() // If do returns early it is not called again in this period.
}

// RegisterMetric registers the metric setpoint_leader.
func (l *Leadership) RegisterMetric(registry *prometheus.Registry) {
	registry.MustRegister(prometheus.NewGaugeFunc(
		prometheus.GaugeOpts{Name: "setpoint_leader", Help: "1 if this replica leads, 0 if it stands by."},
		func() float64 {
			if l.Leads() {
				return 1
			}
			return 0
		}))
}

// Known is closed when the first leader is known.
func (l *Leadership) Known() <-chan struct{} { return l.known }
