package explore

import "slices"

// visitor is called for each place after another one, with whether the step to it reaches the goal.
type visitor[P comparable] func(to P, goal bool)

// shortest returns a shortest way from a place to the goal, with both ends; nil if there is none. The first of several
// is that of the first steps.
func shortest[P comparable](start P, next func(at P, visit visitor[P])) []P {
	came := map[P]P{}
	var way []P
	for queue := []P{start}; len(queue) > 0 && way == nil; queue = queue[1:] {
		at := queue[0]
		next(at, func(to P, goal bool) {
			_, known := came[to]
			switch {
			case way != nil:
			case goal:
				way = append(wayTo(came, start, at), to)
			case !known && to != start:
				came[to] = at
				queue = append(queue, to)
			}
		})
	}
	return way
}

// wayTo returns the places from the start to a place.
func wayTo[P comparable](came map[P]P, start, to P) []P {
	way := []P{to}
	for to != start {
		to = came[to]
		way = append(way, to)
	}
	slices.Reverse(way)
	return way
}
