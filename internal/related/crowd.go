package related

import "slices"

// manyInCrowd is from how many on a crowd keeps note of who is where.
const manyInCrowd = 16

// crowd is a set in no order. To walk it costs no more than a slice does, since
// every event walks the crowd of those whom it concerns.
type crowd[T comparable] struct {
	list []T
	// at is where each is in the list; nil while there are few.
	at map[T]int
}

func (c *crowd[T]) add(one T) {
	if c.find(one) >= 0 {
		return
	}
	c.list = append(c.list, one)
	switch {
	case c.at != nil:
		c.at[one] = len(c.list) - 1
	case len(c.list) > manyInCrowd:
		c.at = make(map[T]int, 2*len(c.list))
		for i, each := range c.list {
			c.at[each] = i
		}
	}
}

// remove puts the last one in the place of the one that goes.
func (c *crowd[T]) remove(one T) {
	i := c.find(one)
	if i < 0 {
		return
	}
	last := len(c.list) - 1
	moved := c.list[last]
	c.list[i] = moved
	clear(c.list[last:])
	c.list = c.list[:last]
	if c.at != nil {
		c.at[moved] = i
		delete(c.at, one)
	}
}

func (c *crowd[T]) find(one T) int {
	if c.at == nil {
		return slices.Index(c.list, one)
	}
	if i, found := c.at[one]; found {
		return i
	}
	return -1
}

func (c *crowd[T]) empty() bool { return len(c.list) == 0 }
