package explore

import (
	"context"
	"slices"
)

// maxToRest bounds the changes after a story until nothing changes any more.
const maxToRest = 200

// rest goes on from the end of a way until nothing changes any more: other logic may still have something to do where
// the story ended. Where pods end and are replaced for ever, that is a state in which nothing else changes. It reports
// false if there is no such state.
func (s *search) rest(ctx context.Context, nodes []uint32) (way []uint32, rests bool) {
	way = slices.Clone(nodes)
	quiet := map[uint32]int{} // How long the way to each state is in which nothing but the end of a pod changes anything.
	for range maxToRest {
		last := way[len(way)-1]
		next := s.nextChange(ctx, last, s.keepsPods)
		if len(next) == 0 {
			at := s.nodes[last].state.stored
			if length, isBack := quiet[at]; isBack {
				return way[:length], ctx.Err() == nil
			}
			quiet[at] = len(way)
			if next = s.nextChange(ctx, last, s.isNatural); len(next) == 0 {
				return way, ctx.Err() == nil
			}
		}
		way = append(way, next[1:]...)
	}
	return way, false
}

// nextChange returns the shortest way of some steps to a change of what is stored; none if there is none.
func (s *search) nextChange(ctx context.Context, from uint32, follows func(edge) bool) []uint32 {
	at := s.nodes[from].state.stored
	return shortest(from, func(id uint32, visit visitor[uint32]) {
		if ctx.Err() != nil {
			return
		}
		s.merge(id, s.workers[0].expand(s.unpack(s.nodes[id].state)))
		for _, e := range s.nodes[id].edges {
			if follows(e) {
				visit(e.to, s.nodes[e.to].state.stored != at)
			}
		}
	})
}
