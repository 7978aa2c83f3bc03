package explore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// found is a violation, and the way to it.
type found struct {
	finding

	// nodes are the states on the way.
	nodes []uint32
	// last is the step after the last of them that is wrong in itself; -1 if a state is.
	last int
	// repeats is how many steps at the end go on for ever, other a state to compare with; noParent for none.
	repeats int
	other   uint32
}

// violated records the first violation of each property: within a layer, its way is a shortest one.
func (s *search) violated(f finding, nodes []uint32, last int) *found {
	v := &found{finding: f, nodes: nodes, last: last, other: noParent}
	if !s.violates(f.property) && !slices.Contains(s.options.Unchecked, f.property) {
		s.found = append(s.found, v)
	}
	return v
}

// violatedOn records that a property does not hold on a way; nothing if the text is empty.
func (s *search) violatedOn(way []uint32, p Property, text string) {
	if text != "" {
		s.violated(finding{property: p, text: text}, way, -1)
	}
}

func (s *search) violates(p Property) bool {
	return slices.ContainsFunc(s.found, func(one *found) bool { return one.property == p })
}

// firstCheck is the number of states at which the graph is checked for the first time while it grows, and how many
// states a search looks at, at least, for violations of more properties.
const firstCheck = 20_000

// enoughFound says why a search ends at violations.
const enoughFound = "violations were found, and what follows would have longer stories"

// enough reports whether violations end the search. The layer goes on, for one run to show all that is violated; but
// not for ever.
func (s *search) enough() string {
	if s.options.hasDifferences() {
		return "a hook is not deterministic"
	}
	if len(s.nodes) >= s.nextCheck {
		// An endless way must not hide what is violated on it.
		s.nextCheck = 2 * len(s.nodes)
		s.checkLayer()
	}
	if len(s.found) == 0 {
		return ""
	}
	if s.lastState == 0 {
		s.lastState = len(s.nodes) + max(len(s.nodes), firstCheck)
	}
	if len(s.nodes) >= s.lastState {
		return enoughFound
	}
	return ""
}

// checksHooks reports whether hooks have to respond to equal requests equally.
func (o *Options) checksHooks() bool {
	return o.Memo != nil && !slices.Contains(o.Unchecked, Deterministic)
}

// hasDifferences reports whether a hook was seen to respond in two ways.
func (o *Options) hasDifferences() bool { return o.checksHooks() && len(o.Memo.Differences()) > 0 }

// These bound the calls that are made once more at the end: the time in which they begin, and that in which they end, of
// the same processes and of those that were restarted, and how often they are: a few times also on a slow machine.
const (
	repeating       = time.Second
	lastRepeating   = 10 * time.Second
	restarting      = 5 * time.Second
	lastRestarting  = 30 * time.Second
	minHookRestarts = 3
	maxHookRestarts = 8
)

// repeatCalls finds hooks with a memory. It does so when the time of the search is over, too, but not if it was
// interrupted.
func (o *Options) repeatCalls(ctx context.Context) error {
	if !o.checksHooks() || errors.Is(ctx.Err(), context.Canceled) {
		return nil
	}
	if ctx.Err() != nil {
		ctx = context.WithoutCancel(ctx)
	}
	within, cancel := context.WithTimeout(ctx, lastRepeating)
	defer cancel()
	o.Memo.Repeat(within, repeating)
	return o.restartHooks(ctx)
}

// restartHooks compares responses with those of hooks whose processes have just started.
func (o *Options) restartHooks(ctx context.Context) error {
	if o.Restart == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, lastRestarting)
	defer cancel()
	for i, end := 0, time.Now().Add(restarting); i < maxHookRestarts && (i < minHookRestarts || time.Now().Before(end)) &&
		len(o.Memo.Differences()) == 0; i++ {
		programs, stop, err := o.Restart(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("start the hooks once more, to compare what they respond: %w", err)
		}
		o.Memo.RepeatRestarted(ctx, i, programs)
		stop()
	}
	return nil
}
