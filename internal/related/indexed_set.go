package related

import "slices"

// indexFrom is the size from which a set has an index.
const indexFrom = 16

// indexedSet is an unordered set. Iterating is as fast as over a slice, because every event
// iterates.
type indexedSet[T comparable] struct {
	list []T
	// positions are the positions in the list; nil for small sets.
	positions map[T]int
}

func (c *indexedSet[T]) add(one T) {
	if c.find(one) >= 0 {
		return
	}
	c.list = append(c.list, one)
	switch {
	case c.positions != nil:
		c.positions[one] = len(c.list) - 1
	case len(c.list) > indexFrom:
		c.positions = make(map[T]int, 2*len(c.list))
		for i, each := range c.list {
			c.positions[each] = i
		}
	}
}

// remove moves the last element to the position of the removed one.
func (c *indexedSet[T]) remove(one T) {
	i := c.find(one)
	if i < 0 {
		return
	}
	last := len(c.list) - 1
	moved := c.list[last]
	c.list[i] = moved
	clear(c.list[last:])
	c.list = c.list[:last]
	if c.positions != nil {
		c.positions[moved] = i
		delete(c.positions, one)
	}
}

func (c *indexedSet[T]) find(one T) int {
	if c.positions == nil {
		return slices.Index(c.list, one)
	}
	if i, found := c.positions[one]; found {
		return i
	}
	return -1
}

func (c *indexedSet[T]) empty() bool { return len(c.list) == 0 }
