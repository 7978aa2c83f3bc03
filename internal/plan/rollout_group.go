package plan

import (
	"github.com/setpoint-dev/setpoint/internal/object"
)

// candidate is one child in the line of its rule.
type candidate struct {
	// latest is what the latest revision wants of it.
	latest Child
	// former is the revision that claims it; -1 for none, and it follows the
	// latest. then is what that revision wants of it, nil if unknown.
	former      int
	formerChild *Child
	// observed is nil for a child that is not there.
	observed *object.Object
	// notReady says why it is not well; "" for one that is.
	notReady string
	// differs says that it is not as its own revision wants it.
	differs bool
	// moved says that it goes over to the latest revision now, begun that it
	// does, or is brought back to that, or created.
	moved, updating bool
}

// candidate looks at one child. One that needs no change to be as the latest
// revision wants it follows that from now on.
func (r *Rollout) candidate(latest Child, observed *object.Object, by claim) (*candidate, error) {
	c := &candidate{latest: nonRolling(latest), former: by.former, observed: observed}
	c.notReady = latest.Rule.notReadyReason(observed)
	if by.child != nil {
		then := nonRolling(*by.child)
		c.formerChild = &then
	}
	if c.former >= 0 && c.formerChild != nil && c.formerChild.Object.Digest() == c.latest.Object.Digest() {
		c.former = -1
	}
	if err := r.compare(c); err != nil {
		return nil, err
	}
	return c, nil
}

func nonRolling(child Child) Child {
	child.Rule.Method = child.Rule.Method.NonRolling()
	return child
}

// compare finds out whether the child is as it should be. A claimed one that is
// not may have been brought to the latest revision by somebody else, or while
// its rule was no rolling one.
func (r *Rollout) compare(c *candidate) (err error) {
	if c.former >= 0 && c.formerChild != nil {
		if c.differs, err = r.differs(c.observed, *c.formerChild); err != nil || !c.differs {
			return err
		}
	}
	differs, err := r.differs(c.observed, c.latest)
	switch {
	case err != nil:
		return err
	case c.former < 0:
		c.differs = differs
	case !differs && c.observed != nil && !c.observed.Deleting():
		c.former, c.differs = -1, false
	}
	return nil
}

// differs says whether the plan for one child would write to it.
func (r *Rollout) differs(observed *object.Object, want Child) (bool, error) {
	if observed == nil || observed.Deleting() {
		return false, nil
	}
	p, err := r.Family.Changes([]*object.Object{observed}, []Child{want}, r.UpToDate)
	return !p.Empty(), err
}

// desired is what the child is to be. What is there stays as it is where its
// revision does not say what it wants; what is not there is not known then.
func (c *candidate) desired() (want Child, known bool) {
	switch {
	case c.former < 0:
		return c.latest, true
	case c.formerChild != nil:
		return *c.formerChild, true
	}
	want = c.latest
	want.Rule.Method = OnDelete
	return want, c.observed != nil
}

// rolloutGroup is the children of one rule.
type rolloutGroup struct {
	candidates []*candidate
	max        int
}

// advance decides which of them are moved to the latest revision. disturbed
// counts the children that are not well, or will not be when they have been
// written to; moved those of them that follow the latest revision.
func (l *rolloutGroup) advance() {
	unavailable, moved := 0, 0
	for _, c := range l.candidates {
		unavailable += count(c.isUnavailable())
		moved += count(c.isUnavailable() && c.former < 0)
	}
	for _, c := range l.candidates {
		switch {
		case c.former < 0:
			c.updating = c.observed == nil || c.differs
		case c.isUnavailable() && moved < l.max:
			c.move()
			moved++
		case !c.isUnavailable() && unavailable < l.max:
			c.move()
			moved, unavailable = moved+1, unavailable+1
		}
	}
}

// isUnavailable says that the child is not to be counted on for now.
func (c *candidate) isUnavailable() bool { return c.notReady != "" || c.differs }

func (c *candidate) move() { c.former, c.moved, c.updating = -1, true, true }
