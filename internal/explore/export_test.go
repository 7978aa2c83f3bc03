package explore

import (
	"context"
	"regexp"
	"slices"

	"github.com/setpoint-dev/setpoint/internal/explore/state"
)

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
		for _, at := range t.stored().Entries {
			text = append(append(text, at.Version.Object.JSON()...), '\n')
		}
		all[resourceVersions.ReplaceAllString(string(text), "")] = true
		return ""
	}
	t.combine(state.Budget{})
	return all, nil
}

var resourceVersions = regexp.MustCompile(`"resourceVersion":"\d+",?`)
