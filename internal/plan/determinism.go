package plan

import (
	"cmp"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// firstCheckAfter is after how many calls in a row that each led to a write, with the parent
// unchanged, a hook is suspected.
const firstCheckAfter = 5

// DeterminismCheck counts the calls of a hook for one parent that each led to a write. Its zero value
// is ready. It has no clock of its own.
type DeterminismCheck struct {
	intent    uint64
	calls     int
	nextCheck int
	lastWrite time.Time
	differed  bool
	// sameAtOnce says that two responses at once were the same.
	sameAtOnce bool
}

// RecordWrite notes that the latest call led to a write. Another intent begins anew.
func (c *DeterminismCheck) RecordWrite(intent uint64, now time.Time) {
	if c.intent != intent || now.Sub(c.lastWrite) > flappingWindow {
		*c = DeterminismCheck{intent: intent, nextCheck: firstCheckAfter}
	}
	c.calls, c.lastWrite = c.calls+1, now
}

// Due says that the hook should be called twice with one request, to compare what it
// responds: at once, or after a moment, where a difference at once was looked for before.
func (c *DeterminismCheck) Due(intent uint64, now time.Time) (due, delayed bool) {
	if c.calls == 0 || c.intent != intent || now.Sub(c.lastWrite) > flappingWindow {
		return false, false
	}
	return c.differed || c.calls >= c.nextCheck, c.sameAtOnce
}

// RecordResult notes what came of that. One whose responses are the same is left in peace for
// twice as many calls.
func (c *DeterminismCheck) RecordResult(differ bool) {
	c.differed, c.nextCheck = differ, 2*c.calls
	c.sameAtOnce = c.sameAtOnce || !differ
}

// ResponseDifference names the first place in which two responses differ, such as "ConfigMap a/b:
// data.time"; "" if they mean the same.
func ResponseDifference(first, second *hook.Response) string {
	left, leftNames := childrenIn(first)
	right, _ := childrenIn(second)
	for _, name := range leftNames {
		if right[name] == nil {
			return name + ": only in one of them"
		}
		if path := diffValues("", left[name], right[name], equivalent); path != "" {
			return name + ": " + path
		}
	}
	if len(left) != len(right) {
		return "the number of children"
	}
	one, _ := tree(first.Status)
	other, _ := tree(second.Status)
	return cmp.Or(
		diffValues("status", membersOf(one), membersOf(other), equivalent),
		diffValues("labels", membersOf(first.Labels), membersOf(second.Labels), equivalent),
		diffValues("annotations", membersOf(first.Annotations), membersOf(second.Annotations), equivalent),
	)
}

// membersOf are those of a map as of a tree.
func membersOf[T any](of map[string]T) map[string]any {
	members := make(map[string]any, len(of))
	for name, value := range of {
		members[name] = value
		if text, isText := any(value).(*string); isText && text != nil {
			members[name] = *text
		} else if isText {
			members[name] = nil
		}
	}
	return members
}

// childrenIn are the children of a response by name, with their names in order.
func childrenIn(response *hook.Response) (byName map[string]any, names []string) {
	byName = map[string]any{}
	for _, raw := range response.Children {
		fields, err := tree(raw)
		if err != nil {
			continue
		}
		child, err := object.Parse(raw)
		if err != nil {
			continue
		}
		name := child.Ref().String()
		byName[name], names = fields, append(names, name)
	}
	slices.Sort(names)
	return byName, names
}

// equivalent says that two values mean the same: as quantities, "1" is "1000m".
func equivalent(a, b any) bool {
	if equalScalars(a, b) {
		return true
	}
	left, isText := a.(string)
	right, isTextToo := b.(string)
	if !isText || !isTextToo {
		return false
	}
	one, err := resource.ParseQuantity(left)
	if err != nil {
		return false
	}
	other, err := resource.ParseQuantity(right)
	return err == nil && one.Cmp(other) == 0
}
