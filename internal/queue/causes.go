package queue

import (
	"fmt"
	"slices"
	"strings"
)

// maxListed bounds what one key remembers: a parent with thousands of children
// must not carry thousands of causes.
const maxListed = 8

// Causes is a bounded set of causes in the order in which they came. Which
// kinds it holds is always exact; of the causes themselves the first few are
// listed, the more urgent ones in preference, and the rest is counted.
type Causes struct {
	list  []Cause
	more  int
	kinds uint16 // bit k: a cause of CauseKind k was added
}

// NewCauses returns the set of the given causes.
func NewCauses(causes ...Cause) Causes {
	var set Causes
	for _, cause := range causes {
		set.add(cause)
	}
	return set
}

// List returns the listed causes, oldest first. It is not to be changed.
func (c Causes) List() []Cause { return c.list }

// More returns how many additions are not listed; repetitions among them count.
func (c Causes) More() int { return c.more }

// Has tells whether a cause of this kind was added, listed or not.
func (c Causes) Has(kind CauseKind) bool { return c.kinds&(1<<kind) != 0 }

// Priority returns the band of the most urgent cause.
func (c Causes) Priority() Priority {
	most := Background
	for kind := range causeKinds {
		if c.Has(kind) {
			most = min(most, kind.Priority())
		}
	}
	return most
}

// String returns the causes in words, as one line.
func (c Causes) String() string {
	words := make([]string, 0, len(c.list)+1)
	for _, cause := range c.list {
		words = append(words, cause.String())
	}
	if c.more > 0 {
		words = append(words, fmt.Sprintf("%d more", c.more))
	}
	return strings.Join(words, ", ")
}

func (c *Causes) empty() bool { return c.kinds == 0 }

func (c *Causes) reaction() backoffReaction {
	strongest := joinRetry
	for kind := range causeKinds {
		if c.Has(kind) {
			strongest = max(strongest, kind.traits().reaction)
		}
	}
	return strongest
}

func (c *Causes) add(cause Cause) {
	if cause.Kind >= causeKinds {
		cause.Kind = Unspecified
	}
	c.kinds |= 1 << cause.Kind
	switch {
	case slices.Contains(c.list, cause):
	case len(c.list) < maxListed:
		c.list = append(c.list, cause)
	default:
		c.more++
		c.replaceLessUrgent(cause)
	}
}

// replaceLessUrgent lists the cause in place of the newest of the least urgent ones, if
// it is more urgent than those.
func (c *Causes) replaceLessUrgent(cause Cause) {
	least := 0
	for i, listed := range c.list {
		if listed.Kind.Priority() >= c.list[least].Kind.Priority() {
			least = i
		}
	}
	if cause.Kind.Priority() < c.list[least].Kind.Priority() {
		c.list = append(slices.Delete(c.list, least, least+1), cause)
	}
}
