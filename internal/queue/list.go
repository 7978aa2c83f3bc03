package queue

// list is a doubly linked list with links in its elements, so that its operations allocate nothing.
type list[T any] struct{ first, last *link[T] }

type link[T any] struct {
	prev, next *link[T]
	element    *T
}

func (l *list[T]) empty() bool { return l.first == nil }

func (l *list[T]) push(n *link[T]) {
	n.prev, n.next = l.last, nil
	if l.last == nil {
		l.first = n
	} else {
		l.last.next = n
	}
	l.last = n
}

func (l *list[T]) remove(n *link[T]) {
	if n.prev == nil {
		l.first = n.next
	} else {
		n.prev.next = n.next
	}
	if n.next == nil {
		l.last = n.prev
	} else {
		n.next.prev = n.prev
	}
	n.prev, n.next = nil, nil
}

func (l *list[T]) all(yield func(*T) bool) {
	for n := l.first; n != nil; n = n.next {
		if !yield(n.element) {
			return
		}
	}
}

// freeList keeps some discarded elements for reuse.
type freeList[T any] []*T

const maxFree = 256

func (s *freeList[T]) take() *T {
	n := len(*s)
	if n == 0 {
		return new(T)
	}
	element := (*s)[n-1]
	*s = (*s)[:n-1]
	return element
}

func (s *freeList[T]) put(element *T) {
	if len(*s) < maxFree {
		var zero T
		*element = zero
		*s = append(*s, element)
	}
}
