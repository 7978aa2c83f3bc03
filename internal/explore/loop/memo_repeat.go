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
		m.repeat(ctx, made, Difference{Later: true})
	}
}

// repeat makes a call once more and compares the responses.
func (m *Memo) repeat(ctx context.Context, made madeCall, d Difference) {
	d.Hook = made.hook
	_, text, pure, err := made.do(ctx)
	if pure && ctx.Err() == nil {
		m.compare(d, made.r, text, err)
	}
}

// callsAfterRestart is how many calls a process receives that has just started.
const callsAfterRestart = 40

// RepeatRestarted makes calls once more, of hooks whose processes have just started, and notes what differs: a search goes
// on calling the same processes, and would not see what they remember. What was wanted when the first calls after a start
// were made differs from restart to restart, which a number counts.
func (m *Memo) RepeatRestarted(ctx context.Context, restart int, hooks Programs) {
	m.substitute(hooks.byName())
	defer m.substitute(nil)
	for _, made := range m.keptFrom(restart) {
		if ctx.Err() != nil {
			return
		}
		m.repeat(ctx, made, Difference{Restarted: true})
	}
}

// keptFrom returns calls to repeat: first one with what was wanted later than in the search, and then others, of which the
// last ones come first.
func (m *Memo) keptFrom(restart int) []madeCall {
	all := m.kept()
	slices.Reverse(all)
	m.mu.Lock()
	defer m.mu.Unlock()
	var begin []madeCall
	for _, name := range slices.Sorted(maps.Keys(m.hooks)) {
		// A process has seen the first one first anyway.
		if firsts := m.hooks[name].repeatable.firsts; len(firsts) > 1 {
			begin = append(begin, firsts[1+restart%(len(firsts)-1)])
		}
	}
	return slices.Concat(begin, all[:min(len(all), callsAfterRestart)])
}

func (m *Memo) substitute(hooks map[string]any) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.restarted = hooks
}

// current returns the hook to call: that of a process which has just started, or the first one.
func current[H any](m *Memo, name string, first H) H {
	m.mu.Lock()
	defer m.mu.Unlock()
	if restarted, is := m.restarted[name].(H); is {
		return restarted
	}
	return first
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
	made := slices.Concat(r.oldest, r.newest)
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
