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
// on calling the same processes, and would not see what they remember. The first call after a restart differs most
// easily; restart numbers them, and each begins with another one, the first with the newest.
func (m *Memo) RepeatRestarted(ctx context.Context, restart int, hooks Programs) {
	m.substitute(hooks.hooks())
	defer m.substitute(nil)
	all := m.kept()
	slices.SortStableFunc(all, func(a, b madeCall) int { return b.number - a.number })
	begin := int(float64(len(all)) * spread(restart))
	for i := range min(len(all), callsAfterRestart) {
		if ctx.Err() != nil {
			return
		}
		m.repeat(ctx, all[(begin+i)%len(all)], Difference{Restarted: true})
	}
}

// spread returns numbers between 0 and 1, the first of which are far from each other: 0, 1/2, 1/4, 3/4, 1/8 …
func spread(i int) float64 {
	at, part := 0.0, 0.5
	for ; i > 0; i, part = i/2, part/2 {
		at += part * float64(i%2)
	}
	return at
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

// hooks returns the hooks of the programs, by their names in a Memo.
func (p *Programs) hooks() map[string]any {
	all := map[string]any{}
	for i := range p.Compose {
		one := &p.Compose[i]
		all[one.Name+" sync"], all[one.Name+" finalize"], all[one.Name+" customize"] = one.Sync, one.Finalize, one.Customize
	}
	for i := range p.Handle {
		for _, h := range p.Handle[i].Handlers {
			all[p.Handle[i].Name+" "+h.Name] = h.Do
		}
	}
	return all
}

// maxRepeatable is how many of the oldest calls of a hook are kept, and of the newest.
const maxRepeatable = 100

// repeatable are calls that were made: the oldest in their order, and the newest, of which next is the oldest.
type repeatable struct {
	oldest, newest []madeCall
	next, count    int
}

// madeCall is a call with its response.
type madeCall struct {
	call

	r *remembered
	// number counts the calls of a hook that were kept.
	number int
}

// keep keeps a call to repeat it. A program that a call crashed would have to start again first.
func (m *Memo) keep(c call, r *remembered) {
	if c.inRun || r.err != nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	kept := &m.hookNamed(c.hook).repeatable
	kept.count++
	made := madeCall{c, r, kept.count}
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
