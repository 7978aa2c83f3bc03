package explore

import (
	"context"
	"regexp"
	"slices"
	"time"

	"github.com/setpoint-dev/setpoint/internal/explore/graph"
	"github.com/setpoint-dev/setpoint/internal/explore/outcome"
	"github.com/setpoint-dev/setpoint/internal/explore/state"
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
	again := &search{Space: s.Space, options: s.options, initial: s.initial, workers: s.workers, began: time.Now(), ends: outcome.New(), creators: s.creators, rests: s.rests, nextCheck: firstCheck}
	again.Graph, again.pending, again.notes = graph.New(s.Unpack(s.Nodes[0].State), len(s.pending), s.Effect), make([][][]uint32, len(s.pending)), make([]notes, len(s.pending))
	again.push(0)
	between()
	if err := again.run(ctx); err != nil {
		return nil, err
	}
	return again.report(), nil
}

// Rests returns what is stored in the states of rest, found with all objects together or in groups.
func Rests(ctx context.Context, options Options, apart bool) (map[string]bool, error) {
	options = options.withDefaults()
	groups := []group{{options.Objects, options.Edits}}
	if apart {
		groups = groupsOf(options)
	}
	options.Invariants = nil
	ctx, cancel := context.WithTimeout(ctx, options.Bounds.Time)
	defer cancel()
	searches := make([]*search, len(groups))
	if err := searchEach(ctx, options, groups, searches); err != nil {
		return nil, err
	}
	t := &together{Space: searches[0].Space, ctx: ctx}
	for _, s := range searches {
		t.parts = append(t.parts, slices.DeleteFunc(s.contentsOf(), func(c *contents) bool { return !c.rest }))
	}
	all := map[string]bool{}
	t.visit = func() string {
		var text []byte
		for _, at := range t.stored().Slots {
			text = append(append(text, at.Version.Object.JSON()...), '\n')
		}
		all[resourceVersions.ReplaceAllString(string(text), "")] = true
		return ""
	}
	t.combine(state.Budget{})
	return all, nil
}

var resourceVersions = regexp.MustCompile(`"resourceVersion":"\d+",?`)
