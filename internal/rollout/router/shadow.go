package router

import (
	"fmt"
	"strings"
	"sync"
	"time"

	api "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/difference"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/rollout"
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
	parents      map[controller.ObjectID]shadowedParent
	// comparing are the parents that are compared now, one comparison each, and whether its result counts.
	comparing map[controller.ObjectID]bool
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

func (s *shadow) get(of parent) shadowedParent {
	if p := s.parents[of.ObjectID]; p.uid == of.uid {
		return p
	}
	return shadowedParent{uid: strings.Clone(of.uid)}
}

// tryAcquire reports whether a parent may be compared now. release has to follow.
func (s *shadow) tryAcquire(of parent, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, comparing := s.comparing[of.ObjectID]
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
		s.comparing = map[controller.ObjectID]bool{}
	}
	s.comparing[of.ObjectID] = true
	p.requestedAt = now
	s.parents[of.ObjectID] = p
	return true
}

// release ends a comparison. A nil result means that the controller is stopping.
func (s *shadow) release(of parent, result *shadowResult) {
	s.mu.Lock()
	defer s.mu.Unlock()
	counts := s.comparing[of.ObjectID]
	delete(s.comparing, of.ObjectID)
	p := s.parents[of.ObjectID]
	if !counts || result == nil || p.uid != of.uid {
		return // It was deleted meanwhile.
	}
	p.add(result)
	s.parents[of.ObjectID] = p
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

func (s *shadow) drop(of controller.ObjectID) {
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
func (s *shadow) due(all []parent, now time.Time) []parent {
	s.mu.Lock()
	defer s.mu.Unlock()
	var chosen []parent
	for _, of := range all {
		if len(chosen) >= min(s.first, maxShadowCalls-len(s.comparing)) {
			break
		}
		p := s.get(of)
		if _, comparing := s.comparing[of.ObjectID]; comparing || p.settled && !p.isFailing() ||
			now.Sub(p.requestedAt) < shadowRetryDelay {
			continue
		}
		p.requestedAt = now
		s.parents[of.ObjectID] = p
		chosen = append(chosen, of)
	}
	return chosen
}

// observe adds what is known of a parent to what a rollout knows.
func (s *shadow) observe(of parent, o *object.Object, all *rollout.Observed) {
	s.mu.Lock()
	p := s.get(of)
	s.mu.Unlock()
	name := o.Ref().String()
	if p.failure != "" && !p.isFailing() {
		all.Add(rollout.Observed{Shadow: rollout.Shadow{Retrying: 1, RetryingFailure: name + ": " + p.failure}})
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
	all.Add(known)
}

// describe returns what the comparison has shown of a parent, as lines; nil if nothing is different.
func (s *shadow) describe(of parent) []string {
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

// notComparable is the result of a comparison that cannot be made.
func notComparable(why string) *shadowResult {
	return &shadowResult{effects: []difference.Effect{{Consequence: difference.NotComparable, Text: why}}}
}
