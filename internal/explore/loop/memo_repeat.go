package loop

import (
	"context"
	"maps"
	"slices"
	"time"
)

// Repeat makes some calls of each hook once more, and notes a response that differs from the remembered one: then the hook
// has a memory, and its response depends on what it was called with before. The oldest and the newest calls take turns,
// so that each has another one before it than at first. No call begins once the time is over or the context has ended.
func (m *Memo) Repeat(ctx context.Context, within time.Duration) {
	end := time.Now().Add(within)
	for _, made := range m.kept() {
		if ctx.Err() != nil || time.Now().After(end) {
			return
		}
		_, text, pure, err := made.do(ctx)
		if pure && ctx.Err() == nil {
			m.compare(made.hook, made.r, text, err, true)
		}
	}
}

// maxRepeatable is how many of the oldest calls of a hook are kept, and of the newest.
const maxRepeatable = 100

// repeatable are calls that were made: the oldest in their order, and the newest, of which next is the oldest.
type repeatable struct {
	oldest, newest []madeCall
	next           int
}

// madeCall is a call with its response.
type madeCall struct {
	call

	r *remembered
}

// keep keeps a call to repeat it. A program that a call crashed would have to start again first.
func (m *Memo) keep(c call, r *remembered) {
	if c.inRun || r.err != nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	kept, made := &m.hookNamed(c.hook).repeatable, madeCall{c, r}
	switch {
	case len(kept.oldest) < maxRepeatable:
		kept.oldest = append(kept.oldest, made)
	case len(kept.newest) < maxRepeatable:
		kept.newest = append(kept.newest, made)
	default:
		kept.newest[kept.next] = made
		kept.next = (kept.next + 1) % maxRepeatable
	}
}

// kept returns the calls to repeat, the oldest and the newest of all hooks in turn.
func (m *Memo) kept() []madeCall {
	m.mu.Lock()
	defer m.mu.Unlock()
	var hooks [][]madeCall
	most := 0
	for _, name := range slices.Sorted(maps.Keys(m.hooks)) {
		kept := m.hooks[name].repeatable.inTurn()
		hooks, most = append(hooks, kept), max(most, len(kept))
	}
	var all []madeCall
	for i := range most {
		for _, kept := range hooks {
			if i < len(kept) {
				all = append(all, kept[i])
			}
		}
	}
	return all
}

// inTurn returns the oldest call, the newest, the second oldest, and so on.
func (r *repeatable) inTurn() []madeCall {
	made := slices.Concat(r.oldest, r.newest[r.next:], r.newest[:r.next])
	all := make([]madeCall, 0, len(made))
	for len(made) > 0 {
		all = append(all, made[0])
		made = made[1:]
		if last := len(made) - 1; last >= 0 {
			all = append(all, made[last])
			made = made[:last]
		}
	}
	return all
}
