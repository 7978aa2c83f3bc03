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
