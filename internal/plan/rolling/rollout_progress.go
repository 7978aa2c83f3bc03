package rolling

import (
	"cmp"
	"fmt"
	"strings"
)

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

func progressOf(lines []*rolloutGroup) Progress {
	var p progress
	for _, line := range lines {
		p.paused = cmp.Or(p.paused, line.paused)
		for _, c := range line.candidates {
			p.add(c)
		}
	}
	state := fmt.Sprintf("%d of %d children are at the latest revision", p.done, p.all)
	switch {
	case len(p.updating) > 0:
		return Progress{RolloutProgressing, state + "; updating " + joinNames(p.updating, ", ")}
	case p.paused != "":
		return Progress{RolloutPaused, state + "; paused: " + p.paused}
	case p.done < p.all:
		return Progress{RolloutWaiting, state + "; waiting for " + joinNames(p.waitingFor, "; ")}
	case p.all == 1:
		return Progress{OnLatestRevision, "the one child is at the latest revision"}
	}
	return Progress{OnLatestRevision, fmt.Sprintf("all %d children are at the latest revision", p.all)}
}

// progress counts the children and collects those for the message.
type progress struct {
	all, done            int
	paused               string
	updating, waitingFor []string
}

func (p *progress) add(c *candidate) {
	p.all++
	name := c.latest.Object.Ref().String()
	there := c.observed != nil && !c.observed.Deleting()
	switch {
	case c.updating:
		p.updating = append(p.updating, name)
		return
	case c.previous < 0 && there && !c.differs:
		p.done++
	}
	if c.notReady != "" {
		p.waitingFor = append(p.waitingFor, name+": "+c.notReady)
	} else if c.differs {
		p.waitingFor = append(p.waitingFor, name+": it is reverted to its revision first")
	}
}

func joinNames(names []string, separator string) string {
	more := len(names) - maxNamed
	if more <= 0 {
		return strings.Join(names, separator)
	}
	return strings.Join(names[:maxNamed], separator) + fmt.Sprintf(" and %d more", more)
}
