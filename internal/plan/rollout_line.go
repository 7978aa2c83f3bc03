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
	former int
	then   *Child
	// observed is nil for a child that is not there.
	observed *object.Object
	// unwell says why it is not well; "" for one that is.
	unwell string
	// differs says that it is not as its own revision wants it.
	differs bool
	// writes says that it is written to now: moved, put right or created.
	writes bool
	// held says that it is left as it is for now.
	held bool
}

// candidate looks at one child. One that needs no change to be as the latest
// revision wants it follows that from now on.
func (r *Rollout) candidate(latest Child, observed *object.Object, by claim) (*candidate, error) {
	m := &candidate{latest: plain(latest), former: by.former, observed: observed}
	m.unwell = latest.Rule.unwell(observed)
	if by.child != nil {
		then := plain(*by.child)
		m.then = &then
	}
	if m.former >= 0 && m.then != nil && m.then.Object.Digest() == m.latest.Object.Digest() {
		m.former = -1
	}
	if err := r.compare(m); err != nil {
		return nil, err
	}
	return m, nil
}

func plain(child Child) Child {
	child.Rule.Method = child.Rule.Method.Plain()
	return child
}

// compare finds out whether the child is as it should be. A claimed one that is
// not may have been brought to the latest revision by somebody else, or while
// its rule was no rolling one.
func (r *Rollout) compare(m *candidate) (err error) {
	if m.former >= 0 && m.then != nil {
		if m.differs, err = r.differs(m.observed, *m.then); err != nil || !m.differs {
			return err
		}
	}
	differs, err := r.differs(m.observed, m.latest)
	switch {
	case err != nil:
		return err
	case m.former < 0:
		m.differs = differs
	case !differs && m.observed != nil && !m.observed.Deleting():
		m.former, m.differs = -1, false
	}
	return nil
}

// differs says whether the plan for one child would write to it.
func (r *Rollout) differs(observed *object.Object, want Child) (bool, error) {
	if observed == nil || observed.Deleting() {
		return false, nil
	}
	p, err := r.Family.Changes([]*object.Object{observed}, []Child{want}, r.Settled)
	return !p.Empty(), err
}

// desired is what the child is to be. Not known is what becomes of one that is
// not there and whose revision says nothing.
func (m *candidate) desired() (want Child, known bool) {
	want = m.latest
	if m.former >= 0 && m.then != nil {
		want = *m.then
	}
	if m.held {
		want.Rule.Method = OnDelete
	}
	return want, m.former < 0 || m.then != nil || m.observed != nil
}

// line is the children of one rule.
type line struct {
	candidates []*candidate
	max     int
}

// advance decides which of them are written to. unwell counts the children that
// are not well, moved those of them that follow the latest revision.
func (l *line) advance(frozen bool) {
	if frozen {
		l.freeze()
		return
	}
	unwell, moved := 0, 0
	for _, m := range l.candidates {
		unwell += count(m.unwell != "")
		moved += count(m.unwell != "" && m.former < 0)
	}
	for _, m := range l.candidates {
		room := unwell < l.max
		switch {
		case m.former >= 0 && m.unwell != "" && moved < l.max:
			m.former, m.writes, moved = -1, true, moved+1
		case m.former >= 0 && m.unwell == "" && room:
			m.former, m.writes, moved, unwell = -1, true, moved+1, unwell+1
		case m.former >= 0:
			m.stay()
		case m.observed == nil || m.differs && m.unwell != "":
			m.writes = true
		case m.differs && room:
			m.writes, moved, unwell = true, moved+1, unwell+1
		case m.differs:
			m.held = true
		}
	}
}

// stay leaves the child at its former revision. If it is well it is left alone:
// putting it right might make it unwell, and its turn will come.
func (m *candidate) stay() {
	m.held = m.then == nil || m.differs && m.unwell == ""
}

// freeze leaves all at their revisions.
func (l *line) freeze() {
	for _, m := range l.candidates {
		m.held = m.former >= 0 && m.then == nil
	}
}
