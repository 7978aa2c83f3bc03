package composite

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/difference"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/queue"
	"github.com/setpoint-dev/setpoint/internal/record"
	"github.com/setpoint-dev/setpoint/internal/rollout"

	api "github.com/setpoint-dev/setpoint/api/v1alpha1"
)

const (
	// maxShadowCalls is how many comparisons run at once, so that a hook that hangs holds few requests.
	maxShadowCalls = 16
	// shadowRetryDelay is when a parent is compared again that could not be, or whose new version failed.
	shadowRetryDelay = 5 * time.Second
	// maxShadowEffects is how many differences of one parent are kept.
	maxShadowEffects = 3
)

// shadow compares the versions while no parent has moved. It never delays or fails a run: a comparison that may not
// be made now is left out.
type shadow struct {
	mu sync.Mutex
	on bool
	// first and again are how many parents may be compared until the next second: those that were not yet, and
	// others, which are reconciled anyway.
	first, again int
	parents      map[guardedParent]shadowedParent
	// comparing are the parents that are compared now, one comparison each, and whether its result counts.
	comparing map[guardedParent]bool
}

// shadowed identifies a parent; another one may have its name later.
type shadowed struct {
	guardedParent

	uid string
}

func (c *Controller) shadowed(parent *object.Object) shadowed {
	return shadowed{guardedParent{c, controller.KeyOf(parent)}, parent.UID()}
}

// shadowedParent is what comparisons have shown of a parent.
type shadowedParent struct {
	uid string
	// requestedAt is when it was queued, or compared.
	requestedAt time.Time
	// settled means that the versions were compared, or that retries do not help.
	settled bool
	// attempts counts the failures of the new version in a row.
	attempts int
	shadowResult
}

// shadowResult is the result of a comparison.
type shadowResult struct {
	// failure is why the new version fails; empty if it does not, or the one before does too.
	failure string
	// terminal means that a retry does not help.
	terminal bool
	effects  []difference.Effect
	// more counts the effects that were left out.
	more int
	// deletions counts the existing children that only the new version would delete, by kind.
	deletions map[string]int
}

// SetShadow starts or ends the comparison of the versions, for at most so many parents per second. It is called
// each second.
func (v *Versions) SetShadow(on bool, perSecond int) {
	s := &v.shadow
	s.mu.Lock()
	defer s.mu.Unlock()
	if on && !s.on { // What an earlier shadow has shown does not count.
		s.parents = map[guardedParent]shadowedParent{}
		for of := range s.comparing {
			s.comparing[of] = false
		}
	}
	if s.on = on; on {
		s.first, s.again = perSecond, perSecond
	}
}

// get returns what is known of a parent.
func (s *shadow) get(of shadowed) shadowedParent {
	if p := s.parents[of.guardedParent]; p.uid == of.uid {
		return p
	}
	return shadowedParent{uid: strings.Clone(of.uid)}
}

// tryAcquire reports whether a parent may be compared now. release has to follow.
func (s *shadow) tryAcquire(of shadowed, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, comparing := s.comparing[of.guardedParent]
	if !s.on || comparing || len(s.comparing) >= maxShadowCalls {
		return false
	}
	left := &s.first
	p := s.get(of)
	if p.settled {
		left = &s.again
	}
	if *left == 0 {
		return false
	}
	*left--
	if s.comparing == nil {
		s.comparing = map[guardedParent]bool{}
	}
	s.comparing[of.guardedParent] = true
	p.requestedAt = now
	s.parents[of.guardedParent] = p
	return true
}

// release ends a comparison. A nil result means that the controller is stopping.
func (s *shadow) release(of shadowed, result *shadowResult) {
	s.mu.Lock()
	defer s.mu.Unlock()
	counts := s.comparing[of.guardedParent]
	delete(s.comparing, of.guardedParent)
	p := s.parents[of.guardedParent]
	if !counts || result == nil || p.uid != of.uid {
		return // It was deleted meanwhile.
	}
	p.add(result)
	s.parents[of.guardedParent] = p
}

// add adds one more result. What a flake would replace stays.
func (p *shadowedParent) add(result *shadowResult) {
	if result.failure == "" {
		p.shadowResult, p.attempts, p.settled = *result, 0, true
		return
	}
	p.attempts++
	p.failure, p.terminal = result.failure, result.terminal
	if p.isFailing() {
		p.shadowResult, p.settled = *result, true
	}
}

// isFailing reports whether the new version fails, and not only for a moment.
func (p *shadowedParent) isFailing() bool {
	return p.failure != "" && (p.attempts > maxFlakes || p.terminal)
}

func (s *shadow) drop(of guardedParent) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.parents, of)
}

func (s *shadow) isOn() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.on
}

// due returns the parents among those given to compare now, and notes that they are queued.
func (s *shadow) due(all []shadowed, now time.Time) []shadowed {
	s.mu.Lock()
	defer s.mu.Unlock()
	var chosen []shadowed
	for _, of := range all {
		if len(chosen) >= min(s.first, maxShadowCalls-len(s.comparing)) {
			break
		}
		p := s.get(of)
		if _, comparing := s.comparing[of.guardedParent]; comparing || p.settled && !p.isFailing() ||
			now.Sub(p.requestedAt) < shadowRetryDelay {
			continue
		}
		p.requestedAt = now
		s.parents[of.guardedParent] = p
		chosen = append(chosen, of)
	}
	return chosen
}

// QueueShadow queues parents for which the versions were not compared yet.
func (c *Controller) QueueShadow() {
	s := &c.tools.Versions.shadow
	if !s.isOn() {
		return
	}
	var all []shadowed
	for parent := range c.Managed() {
		if c.PhaseOf(parent) == controller.PhaseManaged {
			all = append(all, c.shadowed(parent))
		}
	}
	cause := queue.Cause{Kind: queue.LogicCompared, Detail: c.program.Version}
	for _, of := range s.due(all, c.tools.Now()) {
		c.Queue.Add(of.key, cause)
	}
}

// noteNotCompared notes that a run failed before it called a hook, so that the rollout does not wait for it.
func (r *run) noteNotCompared(outcome record.Outcome, err error) {
	if r.program.Former == nil || r.logic.Version == r.program.Version || r.Phase != controller.PhaseManaged {
		return
	}
	var why string
	switch {
	case r.logic.Sync == nil:
		why = "the version before has no sync hook"
	case outcome == record.Failed && r.calls == 0:
		why = failure.OneLine(err)
	default:
		return
	}
	s, of := &r.tools.Versions.shadow, r.shadowed(r.Stored)
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.get(of); s.on && !p.settled {
		p.add(&shadowResult{effects: []difference.Effect{{Consequence: difference.NotComparable, Text: why}}})
		s.parents[of.guardedParent] = p
	}
}

// observe adds what is known of a parent to what a rollout knows.
func (s *shadow) observe(of shadowed, parent *object.Object, o *rollout.Observed) {
	s.mu.Lock()
	p := s.get(of)
	s.mu.Unlock()
	name := parent.Ref().String()
	if p.failure != "" && !p.isFailing() {
		o.Add(rollout.Observed{Shadow: rollout.Shadow{Retrying: 1, RetryingFailure: name + ": " + p.failure}})
	}
	if !p.settled {
		return
	}
	known := rollout.Observed{Shadow: rollout.Shadow{Compared: 1, Deletions: p.deletions}}
	switch {
	case p.isFailing():
		known.Shadow.Failed, known.Shadow.Failure = 1, name+": "+p.failure
	case len(p.effects) > 0 && p.effects[0].Consequence.Severity() < difference.Failed.Severity():
		known.Shadow.Different = 1
	}
	repeats := map[difference.Consequence]int{}
	for _, e := range p.effects {
		known.Shadow.Examples = append(known.Shadow.Examples, rollout.Example{
			RolloutDifference: api.RolloutDifference{Object: name, Consequence: string(e.Consequence), Text: e.Text},
			Severity:          e.Consequence.Severity(), Repeats: repeats[e.Consequence],
		})
		repeats[e.Consequence]++
	}
	o.Add(known)
}

// describe returns what the comparison has shown of a parent, as lines; nil if nothing is different.
func (s *shadow) describe(of shadowed) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.get(of)
	if !s.on {
		return nil
	}
	var lines []string
	if p.failure != "" {
		lines = append(lines, "fails: "+p.failure)
	}
	for _, e := range p.effects {
		if e.Consequence != difference.Failed {
			lines = append(lines, e.Text)
		}
	}
	if p.more > 0 {
		lines = append(lines, fmt.Sprintf("and %d more", p.more))
	}
	return lines
}

// compareLater compares the versions in the background, after the version before was called with a request.
func (r *run) compareLater(ctx context.Context, request *hook.Request, response *hook.Response, err error) {
	if r.program.Former == nil || r.logic.Version == r.program.Version || r.Phase != controller.PhaseManaged || ctx.Err() != nil {
		return
	}
	if _, delayed := hook.RetryDelay(err); delayed {
		return // It gets no response yet.
	}
	s, of := &r.tools.Versions.shadow, r.shadowed(r.Stored)
	if !s.tryAcquire(of, r.tools.Now()) {
		return
	}
	one := &comparison{
		Controller: r.Controller, parent: r.Stored, planner: r.planner, observed: r.observed(), request: *request, beforeErr: err,
	}
	if err == nil {
		said := *response // The run changes the response.
		one.before = &said
	}
	r.shadowCalls.Go(func() { s.release(of, one.run(ctx)) })
}
