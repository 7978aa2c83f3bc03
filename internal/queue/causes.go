package queue

import (
	"fmt"
	"slices"
	"strings"
)

// maxListed bounds the causes of one key: a parent may have thousands of children.
const maxListed = 8

// Causes is a bounded set of causes in the order they were added. It knows all kinds, lists the
// first causes, urgent ones preferred, and counts the rest.
type Causes struct {
	list  []Cause
	more  int
	kinds uint16 // bit k: a cause of CauseKind k was added
}

// NewCauses returns a set of causes.
func NewCauses(causes ...Cause) Causes {
	var set Causes
	for _, cause := range causes {
		set.add(cause)
	}
	return set
}

// List returns the listed causes, oldest first. Do not change it.
func (c Causes) List() []Cause { return c.list }

// More returns how many causes are not listed, duplicates included.
func (c Causes) More() int { return c.more }

// Has reports whether a cause of this kind was added.
func (c Causes) Has(kind CauseKind) bool { return c.kinds&(1<<kind) != 0 }

// Only reports whether all causes are of this kind.
func (c Causes) Only(kind CauseKind) bool { return c.kinds == 1<<kind }

// Priority returns the priority of the most urgent cause.
func (c Causes) Priority() Priority {
	most := Background
	for kind := range causeKinds {
		if c.Has(kind) {
			most = min(most, kind.Priority())
		}
	}
	return most
}

// String returns the causes in one line.
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

// Merge adds the causes of another set.
func (c *Causes) Merge(other Causes) {
	for _, cause := range other.list {
		c.add(cause)
	}
	c.more += other.more
	c.kinds |= other.kinds
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
	known := slices.IndexFunc(c.list, cause.same)
	switch {
	case known >= 0:
		c.list[known].Version = cause.Version
	case len(c.list) < maxListed:
		c.list = append(c.list, cause)
	default:
		c.more++
		c.replaceLessUrgent(cause)
	}
}

// replaceLessUrgent replaces the newest of the least urgent listed causes if the new one is more
// urgent.
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
