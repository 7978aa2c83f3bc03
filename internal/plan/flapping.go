package plan

import (
	"cmp"
	"hash/maphash"
	"maps"
	"slices"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// When a child counts as flapping, and how long its writes are delayed.
const (
	// flappingWrites is how many writes with the same reason within flappingWindow make a child flapping.
	flappingWrites = 5
	flappingWindow = time.Minute
	// minFlappingBackoff and maxFlappingBackoff bound the backoff, which doubles with each write.
	minFlappingBackoff = 10 * time.Second
	maxFlappingBackoff = 30 * time.Second
)

// Flapping finds children of one parent that are written repeatedly although their desired state is
// unchanged, because another client or the server changes them. Its zero value is ready.
type Flapping struct {
	// children are those with recent writes, sorted by id.
	children []writtenChild
}

// writtenChild is a child with recent writes. It has digests only: most children are never flapping.
type writtenChild struct {
	// id is that of the name and not of the UID, since a child that is recreated has another one.
	id, desired, reason uint64
	// writes are the times of the latest writes, oldest first.
	writes  []time.Time
	backoff time.Duration
	// flapping describes a child whose writes have been throttled; else it is nil.
	flapping *FlappingChild
}

// FlappingChild describes a flapping child.
type FlappingChild struct {
	Ref object.Ref
	// Reason is the reason of the writes, such as "data.colour differs".
	Reason string
	// Manager is the field manager that changes the child; "" if it is not known or the API server does.
	Manager string
	// Until is when the next write is allowed.
	Until time.Time
	// ExpiresAt is when the child is no longer flapping if nothing is written before.
	ExpiresAt time.Time
}

// RecordWrite records a write, and returns the child if it is throttled now. It starts over for another desired child.
func (f *Flapping) RecordWrite(a Action, now time.Time) *FlappingChild {
	if !isCorrection(a) {
		return nil
	}
	fresh := writtenChild{id: KeyOf(a.Before).digest(), desired: a.Desired, reason: object.DigestOf([]byte(a.Reason))}
	at, found := f.search(fresh.id)
	if !found {
		f.children = slices.Insert(f.children, at, fresh)
	} else if one := f.children[at]; one.desired != fresh.desired || one.reason != fresh.reason || one.expired(now) {
		f.children[at] = fresh
	}
	return f.children[at].recordWrite(a, now)
}

func (f *Flapping) search(id uint64) (at int, found bool) {
	return slices.BinarySearchFunc(f.children, id, func(one writtenChild, id uint64) int { return cmp.Compare(one.id, id) })
}

var idSeed = maphash.MakeSeed()

func (i Key) digest() uint64 { return maphash.Comparable(idSeed, i) }

// isCorrection reports whether a write corrects a child, as opposed to one that creates, claims or removes it.
func isCorrection(a Action) bool {
	return a.Before != nil && a.Verb != Adopt && a.Verb != Release && a.Reason != noLongerDesired
}

func (o *writtenChild) recordWrite(a Action, now time.Time) *FlappingChild {
	o.writes = append(o.writes, now)
	if len(o.writes) > flappingWrites {
		o.writes = o.writes[1:]
	}
	if len(o.writes) < flappingWrites || now.Sub(o.writes[0]) > max(flappingWindow, time.Duration(flappingWrites)*2*o.backoff) {
		return nil
	}
	o.backoff = min(max(2*o.backoff, minFlappingBackoff), maxFlappingBackoff)
	if o.flapping == nil {
		o.flapping = &FlappingChild{Ref: a.Ref, Reason: a.Reason}
	}
	o.flapping.Until = now.Add(o.backoff)
	return o.flapping
}

// expired reports whether the last write is too old to count.
func (o *writtenChild) expired(now time.Time) bool {
	return !now.Before(o.expiresAt())
}

func (o *writtenChild) expiresAt() time.Time {
	return o.writes[len(o.writes)-1].Add(flappingWindow + 2*o.backoff)
}

// Throttle removes writes to flapping children from a plan. It returns the rest, and when the first
// of the removed writes is allowed; zero if there is none.
func (f *Flapping) Throttle(p Plan, now time.Time) (throttled Plan, until time.Time) {
	if len(f.children) == 0 {
		return p, time.Time{}
	}
	throttled = p.filter(func(a Action) bool {
		if !isCorrection(a) {
			return true
		}
		at, found := f.search(KeyOf(a.Before).digest())
		if !found || f.children[at].desired != a.Desired || f.children[at].flapping == nil || !now.Before(f.children[at].flapping.Until) {
			return true
		}
		if next := f.children[at].flapping.Until; until.IsZero() || next.Before(until) {
			until = next
		}
		return false
	})
	return throttled, until
}

// Children returns the flapping children, sorted by name, and drops those that have expired.
func (f *Flapping) Children(now time.Time) []FlappingChild {
	f.children = slices.DeleteFunc(f.children, func(one writtenChild) bool { return one.expired(now) })
	if len(f.children) == 0 {
		f.children = nil
	}
	var all []FlappingChild
	for _, one := range f.children {
		if one.flapping != nil {
			one.flapping.ExpiresAt = one.expiresAt()
			all = append(all, *one.flapping)
		}
	}
	slices.SortFunc(all, func(a, b FlappingChild) int { return cmp.Compare(a.Ref.String(), b.Ref.String()) })
	return all
}

// firstCheckAfter is after how many calls in a row, each with a write for an unchanged parent, the hook is checked.
const firstCheckAfter = 5

// DeterminismCheck counts the hook calls for one parent that were followed by a write, and says
// when to repeat a request to compare the responses. Its zero value is ready.
type DeterminismCheck struct {
	intent    uint64
	calls     int
	nextCheck int
	lastWrite time.Time
	differed  bool
	// sameAtOnce means that two responses at once were the same.
	sameAtOnce bool
}

// RecordWrite counts a write after the latest call. It starts over for another intent.
func (c *DeterminismCheck) RecordWrite(intent uint64, now time.Time) {
	if !c.counts(intent, now) {
		*c = DeterminismCheck{intent: intent, nextCheck: firstCheckAfter}
	}
	c.calls, c.lastWrite = c.calls+1, now
}

// Due reports whether to repeat the request: at once, or delayed if two responses at once were the same before.
func (c *DeterminismCheck) Due(intent uint64, now time.Time) (due, delayed bool) {
	if !c.counts(intent, now) {
		return false, false
	}
	return c.differed || c.calls >= c.nextCheck, c.sameAtOnce
}

// counts reports whether the calls so far count for an intent.
func (c *DeterminismCheck) counts(intent uint64, now time.Time) bool {
	return c.intent == intent && now.Sub(c.lastWrite) <= flappingWindow
}

// RecordResult records the comparison. If the responses were the same, the next check comes after twice as many calls.
func (c *DeterminismCheck) RecordResult(differ bool) {
	c.differed, c.nextCheck = differ, 2*c.calls
	c.sameAtOnce = c.sameAtOnce || !differ
}

// ResponseDifference returns the first difference of two responses, such as "ConfigMap a/b: data.time"; "" for none.
func ResponseDifference(first, second *hook.Response) string {
	left, right := childrenIn(first), childrenIn(second)
	for _, name := range slices.Sorted(maps.Keys(left)) {
		if right[name] == nil {
			return name + ": only in one response"
		}
		if path := object.DifferenceBy("", left[name], right[name], equivalent); path != "" {
			return name + ": " + path
		}
	}
	if len(left) != len(right) {
		return "the number of children"
	}
	return cmp.Or(
		object.DifferenceBy("status", object.DecodeOrEmpty(first.Status), object.DecodeOrEmpty(second.Status), equivalent),
		object.DifferenceBy("labels", membersOf(first.Labels), membersOf(second.Labels), equivalent),
		object.DifferenceBy("annotations", membersOf(first.Annotations), membersOf(second.Annotations), equivalent),
	)
}

// membersOf returns texts as a JSON object, with null for those that are removed.
func membersOf(texts map[string]*string) map[string]any {
	members := make(map[string]any, len(texts))
	for name, text := range texts {
		members[name] = nil
		if text != nil {
			members[name] = *text
		}
	}
	return members
}

func childrenIn(response *hook.Response) map[string]any {
	byName := map[string]any{}
	for _, raw := range response.Children {
		if child, err := object.Parse(raw); err == nil {
			byName[child.Ref().String()] = object.DecodeOrEmpty(raw)
		}
	}
	return byName
}
