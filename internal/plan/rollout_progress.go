package plan

import (
	"fmt"
	"strings"
)

// The reasons of a rollout's progress.
const (
	RolloutProgressing = "RolloutProgressing"
	RolloutWaiting     = "RolloutWaiting"
	OnLatestRevision   = "OnLatestRevision"
)

// Progress says how far a rollout is.
type Progress struct {
	// Reason is one of those above; Message a sentence.
	Reason, Message string
}

// Done says that every child is as the latest revision wants it.
func (p Progress) Done() bool { return p.Reason == OnLatestRevision }

// maxNamed is how many children a message names; more are counted.
const maxNamed = 3

// progressOf looks at what was decided about each child.
func progressOf(lines []*line) Progress {
	var p progress
	for _, line := range lines {
		for _, m := range line.candidates {
			p.add(m)
		}
	}
	state := fmt.Sprintf("%d of %d children are at the latest revision", p.done, p.all)
	switch {
	case len(p.writing) > 0:
		return Progress{RolloutProgressing, state + "; updating " + named(p.writing, ", ")}
	case p.done < p.all:
		return Progress{RolloutWaiting, state + "; waiting for " + named(p.waitedFor, "; ")}
	case p.all == 1:
		return Progress{OnLatestRevision, "the one child is at the latest revision"}
	}
	return Progress{OnLatestRevision, fmt.Sprintf("all %d children are at the latest revision", p.all)}
}

// progress counts the children, and names those that matter.
type progress struct {
	all, done          int
	writing, waitedFor []string
}

func (p *progress) add(m *candidate) {
	p.all++
	name := m.latest.Object.Ref().String()
	if m.writes {
		p.writing = append(p.writing, name)
		return
	}
	there := m.observed != nil && !m.observed.Deleting()
	if m.former < 0 && there && !m.differs {
		p.done++
	}
	if m.unwell != "" {
		p.waitedFor = append(p.waitedFor, name+": "+m.unwell)
	}
}

func named(names []string, separator string) string {
	more := len(names) - maxNamed
	if more <= 0 {
		return strings.Join(names, separator)
	}
	return strings.Join(names[:maxNamed], separator) + fmt.Sprintf(" and %d more", more)
}
