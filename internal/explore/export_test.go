package explore

import (
	"context"
	"time"
)

// ExploreTwice explores the same states twice. The second time all steps are remembered; between is called before it.
func ExploreTwice(ctx context.Context, options Options, between func()) (*Report, error) {
	s, err := newSearch(options)
	if err == nil {
		err = s.run(ctx)
	}
	if err != nil {
		return nil, err
	}
	again := &search{engine: s.engine, workers: s.workers, began: time.Now(), ends: newEnds(), nextCheck: firstCheck}
	again.graph, again.pending = newGraph(s.unpack(s.nodes[0].state), len(s.pending)), make([][][]uint32, len(s.pending))
	again.push(0)
	between()
	if err := again.run(ctx); err != nil {
		return nil, err
	}
	return again.report(), nil
}
