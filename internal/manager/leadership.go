package manager

import (
	"context"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// leadership is whether this Host may act. It does in terms, and stands by between
// them. What acts is begun by during, so that the end of a term can be waited
// for.
type leadership struct {
	// leaderKnown is closed once it is known who leads, this Host or another.
	leaderKnown    chan struct{}
	setLeaderKnown func()

	mu sync.Mutex
	// lease is the present one, or the next.
	lease *heldLease
	// leaderName is who leads, as far as that is known.
	leaderName string
}

// heldLease is a time of leading.
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

// start begins a term.
func (l *leadership) start() {
	close(l.current().acquired)
	l.setLeaderKnown()
}

// stop ends the term. What it returns is closed when nothing acts any more.
func (l *leadership) stop() (quiet <-chan struct{}) {
	l.mu.Lock()
	past := l.lease
	l.lease = newHeldLease()
	close(past.lost)
	l.mu.Unlock()
	idle := make(chan struct{})
	go func() {
		past.active.Wait()
		close(idle)
	}()
	return idle
}

// setLeader notes who leads.
func (l *leadership) setLeader(leader string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.leaderName = leader
}

// leader is who leads, as far as that is known.
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

// leads says whether this is a term.
func (l *leadership) leads() bool {
	select {
	case <-l.current().acquired:
		return true
	default:
		return false
	}
}

// whileLeading has do act in every term until ctx ends. Its context ends with the
// term, and it must return soon after; then it is called again in the next.
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

// runOnce does its part of one term.
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
	<-ctx.Done() // What is done early is not done twice in a term.
}

// addWorker counts one more that acts in a term, unless it has ended.
func (l *leadership) addWorker(t *heldLease) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lease != t {
		return false
	}
	t.active.Add(1)
	return true
}

// registerMetric adds the figure by which a leader is known.
func (l *leadership) registerMetric(registry *prometheus.Registry) {
	registry.MustRegister(prometheus.NewGaugeFunc(
		prometheus.GaugeOpts{Name: "setpoint_leader", Help: "1 if this Setpoint leads and acts, 0 if it stands by."},
		func() float64 {
			if l.leads() {
				return 1
			}
			return 0
		}))
}
