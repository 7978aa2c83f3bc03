package host

import (
	"context"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// office is whether this Host may act. It does in terms, and stands by between
// them. What acts is begun by during, so that the end of a term can be waited
// for.
type office struct {
	// decided is closed once it is known who leads, this Host or another.
	decided chan struct{}
	decide  func()

	mu sync.Mutex
	// term is the present one, or the next.
	term *term
	// known is who leads, as far as that is known.
	known string
}

// term is a time of leading.
type term struct {
	began, ended chan struct{}
	acting       sync.WaitGroup
}

func newOffice() *office {
	decided := make(chan struct{})
	return &office{decided: decided, decide: sync.OnceFunc(func() { close(decided) }), term: newTerm()}
}

func newTerm() *term { return &term{began: make(chan struct{}), ended: make(chan struct{})} }

// begin begins a term.
func (o *office) begin() {
	close(o.current().began)
	o.decide()
}

// end ends the term. What it returns is closed when nothing acts any more.
func (o *office) end() (quiet <-chan struct{}) {
	o.mu.Lock()
	past := o.term
	o.term = newTerm()
	close(past.ended)
	o.mu.Unlock()
	idle := make(chan struct{})
	go func() {
		past.acting.Wait()
		close(idle)
	}()
	return idle
}

// hear notes who leads.
func (o *office) hear(leader string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.known = leader
}

// leader is who leads, as far as that is known.
func (o *office) leader() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.known
}

func (o *office) current() *term {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.term
}

// leads says whether this is a term.
func (o *office) leads() bool {
	select {
	case <-o.current().began:
		return true
	default:
		return false
	}
}

// during has do act in every term until ctx ends. Its context ends with the
// term, and it must return soon after; then it is called again in the next.
func (o *office) during(ctx context.Context, do func(context.Context)) {
	for ctx.Err() == nil {
		t := o.current()
		select {
		case <-t.began:
			o.act(ctx, t, do)
		case <-ctx.Done():
		}
	}
}

// act does its part of one term.
func (o *office) act(ctx context.Context, t *term, do func(context.Context)) {
	if !o.enter(t) {
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-t.ended:
			cancel()
		case <-ctx.Done():
		}
	}()
	do(ctx)
	t.acting.Done()
	<-ctx.Done() // What is done early is not done twice in a term.
}

// enter counts one more that acts in a term, unless it has ended.
func (o *office) enter(t *term) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.term != t {
		return false
	}
	t.acting.Add(1)
	return true
}

// measure adds the figure by which a leader is known.
func (o *office) measure(registry *prometheus.Registry) {
	registry.MustRegister(prometheus.NewGaugeFunc(
		prometheus.GaugeOpts{Name: "setpoint_leader", Help: "1 if this Setpoint leads and acts, 0 if it stands by."},
		func() float64 {
			if o.leads() {
				return 1
			}
			return 0
		}))
}
