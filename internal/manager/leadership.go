package manager

import (
	"context"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// leadership tracks whether this replica leads. Work that needs leadership runs in
// whileLeading, so that stop can wait for it.
type leadership struct {
	// leaderKnown is closed when the first leader is known.
	leaderKnown    chan struct{}
	setLeaderKnown func()

	mu sync.Mutex
	// lease is the current one, or the next one to be acquired.
	lease *heldLease
	// leaderName is the identity of the leader, if known.
	leaderName string
}

// heldLease is one period of leadership.
type heldLease struct {
	acquired, lost chan struct{}
	active         sync.WaitGroup
}

func newLeadership() *leadership {
	decided := make(chan struct{})
	return &leadership{leaderKnown: decided, setLeaderKnown: sync.OnceFunc(func() { close(decided) }), lease: newHeldLease()}
}

func newHeldLease() *heldLease {
	return &heldLease{acquired: make(chan struct{}), lost: make(chan struct{})}
}

// start begins to lead.
func (l *leadership) start() {
	close(l.current().acquired)
	l.setLeaderKnown()
}

// stop ends leadership. The returned channel is closed when all work has stopped.
func (l *leadership) stop() (idle <-chan struct{}) {
	l.mu.Lock()
	past := l.lease
	l.lease = newHeldLease()
	close(past.lost)
	l.mu.Unlock()
	done := make(chan struct{})
	go func() {
		past.active.Wait()
		close(done)
	}()
	return done
}

// setLeader stores the identity of the leader.
func (l *leadership) setLeader(leader string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.leaderName = leader
}

// leader returns the identity of the leader, if known.
func (l *leadership) leader() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.leaderName
}

func (l *leadership) current() *heldLease {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lease
}

// leads reports whether this replica leads.
func (l *leadership) leads() bool {
	select {
	case <-l.current().acquired:
		return true
	default:
		return false
	}
}

// whileLeading calls do each time this replica leads, until ctx ends. The context of do ends
// with leadership, and do must return soon after.
func (l *leadership) whileLeading(ctx context.Context, do func(context.Context)) {
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
func (l *leadership) runOnce(ctx context.Context, t *heldLease, do func(context.Context)) {
	if !l.addWorker(t) {
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-t.lost:
			cancel()
		case <-ctx.Done():
		}
	}()
	do(ctx)
	t.active.Done()
	<-ctx.Done() // If do returns early it is not called again in this period.
}

// addWorker counts a running worker, unless the period has ended.
func (l *leadership) addWorker(t *heldLease) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lease != t {
		return false
	}
	t.active.Add(1)
	return true
}

// registerMetric registers the metric setpoint_leader.
func (l *leadership) registerMetric(registry *prometheus.Registry) {
	registry.MustRegister(prometheus.NewGaugeFunc(
		prometheus.GaugeOpts{Name: "setpoint_leader", Help: "1 if this replica leads, 0 if it stands by."},
		func() float64 {
			if l.leads() {
				return 1
			}
			return 0
		}))
}
