package rolling

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
)

// candidate is one child in a rolloutGroup.
type candidate struct {
	// latest is the child at the latest revision.
	latest plan.Child
	// previous is the index of the revision that claims it, or -1, and previousChild the child at it, nil if unknown.
	previous      int
	previousChild *plan.Child
	// observed is nil if the child does not exist.
	observed *object.Object
	// notReady says why it is not ready; "" if it is. failure is why that is not known.
	notReady string
	failure  error
	// differs means that it differs from its own revision.
	differs bool
	// moved means that it moves to the latest revision now, updating also that it is corrected or created there.
	moved, updating bool
}

// candidate compares one child with its revisions. A child that already matches the latest revision follows it from
// now on: both revisions may want the same, or another client or another method may have updated the child.
func (r *Rollout) candidate(latest plan.Child, observed *object.Object, by claim) (c *candidate, err error) {
	c = &candidate{latest: nonRolling(latest), previous: by.previous, observed: observed}
	c.notReady, c.failure = latest.Rule.NotReadyReason(observed, r.Family.Parent)
	switch {
	case by.child == nil:
	case by.child.Object.Digest() == latest.Object.Digest():
		c.previous = -1
	default:
		c.previousChild = new(nonRolling(*by.child))
		if c.differs, err = r.differs(observed, *c.previousChild); err != nil || !c.differs {
			return c, err
		}
	}
	differs, err := r.differs(observed, c.latest)
	switch {
	case c.previous < 0:
		c.differs = differs
	case !differs && observed != nil && !observed.Deleting():
		c.previous, c.differs = -1, false
	}
	return c, err
}

func nonRolling(child plan.Child) plan.Child {
	child.Rule.Method = child.Rule.Method.NonRolling()
	return child
}

// differs reports whether a plan would write to the child.
func (r *Rollout) differs(observed *object.Object, want plan.Child) (bool, error) {
	if observed == nil || observed.Deleting() {
		return false, nil
	}
	p, err := r.Family.Changes([]*object.Object{observed}, []plan.Child{want}, r.UpToDate)
	return !p.Empty(), err
}

// desired returns the desired child. If its revision does not know it, an existing child stays, or it is unknown.
func (c *candidate) desired() (want plan.Child, known bool) {
	switch {
	case c.previous < 0:
		return c.latest, true
	case c.previousChild != nil:
		return *c.previousChild, true
	}
	want = c.latest
	want.Rule.Method = plan.OnDelete
	return want, c.observed != nil
}

// rolloutGroup is the children of one rule.
type rolloutGroup struct {
	candidates []*candidate
	max        int
	pause      *plan.Pause
	// paused says why no child moves now; "" if children may. pauseFailure is why that is not known.
	paused       string
	pauseFailure error
}

// advance decides which children are moved to the latest revision. unavailable counts the children that are not ready
// or will be written to; moved counts those of them that follow the latest revision.
func (g *rolloutGroup) advance(parent *object.Object, children []*object.Object) {
	g.evaluatePause(parent, children)
	unavailable, moved := 0, 0
	for _, c := range g.candidates {
		unavailable += count(c.isUnavailable())
		moved += count(c.isUnavailable() && c.previous < 0)
	}
	for _, c := range g.candidates {
		switch {
		case c.previous < 0:
			c.updating = c.observed == nil || c.differs
		case g.paused != "":
		case c.isUnavailable() && moved < g.max:
			c.move()
			moved++
		case !c.isUnavailable() && unavailable < g.max:
			c.move()
			moved, unavailable = moved+1, unavailable+1
		}
	}
}

// evaluatePause finds out whether the rollout of the group is paused, if there is one.
func (g *rolloutGroup) evaluatePause(parent *object.Object, children []*object.Object) {
	if g.pause == nil || !slices.ContainsFunc(g.candidates, func(c *candidate) bool { return c.previous >= 0 }) {
		return
	}
	holds, err := g.pause.Holds(parent, children)
	switch {
	case err != nil:
		g.paused, g.pauseFailure = err.Error(), err
	case holds:
		g.paused = g.pause.Field + " is true"
	}
}

func (g *rolloutGroup) failed() []error {
	errs := append([]error{g.pauseFailure}, lists.Map(g.candidates, func(c *candidate) error { return c.failure })...)
	return slices.DeleteFunc(errs, func(err error) bool { return err == nil })
}

// isDone reports whether a child is at the latest revision, ready or not.
func (c *candidate) isDone() bool {
	return c.previous < 0 && !c.updating && !c.differs && c.observed != nil && !c.observed.Deleting()
}

func (c *candidate) isUnavailable() bool { return c.notReady != "" || c.differs }

func (c *candidate) move() { c.previous, c.moved, c.updating = -1, true, true }

// Reasons of the condition Updated.
const (
	// RolloutProgressing: Setpoint is writing children; the message names them. What to do: wait.
	RolloutProgressing = "RolloutProgressing"
	// RolloutWaiting: the rollout waits for the children in the message to be ready. What to do: find why these
	// children are not ready, or correct the parent: the rollout moves on to the new revision.
	RolloutWaiting = "RolloutWaiting"
	// RolloutPaused: the expression updateStrategy.pause is true, or its evaluation failed; the message says which.
	// What to do: change what the expression reads, or correct it.
	RolloutPaused = "RolloutPaused"
	// OnLatestRevision: every child is at the latest revision. What to do: nothing.
	OnLatestRevision = "OnLatestRevision"
)

// Progress is the progress of a rollout.
type Progress struct {
	// Reason is one of the constants, Message a sentence.
	Reason, Message string
}

// Done reports whether every child is at the latest revision.
func (p Progress) Done() bool { return p.Reason == OnLatestRevision }

// maxNamed is how many children a message names.
const maxNamed = 3

func progressOf(groups []*rolloutGroup) Progress {
	var all, done int
	var paused string
	var updating, waiting []string
	for _, group := range groups {
		paused = cmp.Or(paused, group.paused)
		for _, c := range group.candidates {
			all++
			done += count(c.isDone())
			switch name := c.latest.Object.Ref().String(); {
			case c.updating:
				updating = append(updating, name)
			case c.notReady != "":
				waiting = append(waiting, name+": "+c.notReady)
			case c.differs:
				waiting = append(waiting, name+": it is reverted to its revision first")
			}
		}
	}
	state := fmt.Sprintf("%d of %d children are at the latest revision", done, all)
	switch {
	case len(updating) > 0:
		return Progress{RolloutProgressing, state + "; updating " + joinNames(updating, ", ")}
	case paused != "":
		return Progress{RolloutPaused, state + "; paused: " + paused}
	case done < all:
		return Progress{RolloutWaiting, state + "; waiting for " + joinNames(waiting, "; ")}
	case all == 1:
		return Progress{OnLatestRevision, "the one child is at the latest revision"}
	}
	return Progress{OnLatestRevision, fmt.Sprintf("all %d children are at the latest revision", all)}
}

func joinNames(names []string, separator string) string {
	more := len(names) - maxNamed
	if more <= 0 {
		return strings.Join(names, separator)
	}
	return strings.Join(names[:maxNamed], separator) + fmt.Sprintf(" and %d more", more)
}

func count(yes bool) int {
	if yes {
		return 1
	}
	return 0
}
