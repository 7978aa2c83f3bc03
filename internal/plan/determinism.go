package plan

import (
	"cmp"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// firstCheckAfter is the number of calls in a row, each followed by a write although the parent is
// unchanged, after which the hook is checked.
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
	if c.intent != intent || now.Sub(c.lastWrite) > flappingWindow {
		*c = DeterminismCheck{intent: intent, nextCheck: firstCheckAfter}
	}
	c.calls, c.lastWrite = c.calls+1, now
}

// Due reports whether the request should be repeated: at once, or delayed if two responses at once
// were the same before.
func (c *DeterminismCheck) Due(intent uint64, now time.Time) (due, delayed bool) {
	if c.calls == 0 || c.intent != intent || now.Sub(c.lastWrite) > flappingWindow {
		return false, false
	}
	return c.differed || c.calls >= c.nextCheck, c.sameAtOnce
}

// RecordResult records the comparison. If the responses were the same, the next check comes after
// twice as many calls.
func (c *DeterminismCheck) RecordResult(differ bool) {
	c.differed, c.nextCheck = differ, 2*c.calls
	c.sameAtOnce = c.sameAtOnce || !differ
}

// ResponseDifference returns the first difference of two responses, such as "ConfigMap a/b:
// data.time"; "" if they are equivalent.
func ResponseDifference(first, second *hook.Response) string {
	left, leftNames := childrenIn(first)
	right, _ := childrenIn(second)
	for _, name := range leftNames {
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
	one, _ := object.Decode(first.Status)
	other, _ := object.Decode(second.Status)
	return cmp.Or(
		object.DifferenceBy("status", membersOf(one), membersOf(other), equivalent),
		object.DifferenceBy("labels", membersOf(first.Labels), membersOf(second.Labels), equivalent),
		object.DifferenceBy("annotations", membersOf(first.Annotations), membersOf(second.Annotations), equivalent),
	)
}

// membersOf returns the members of a map as a JSON object.
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

// childrenIn returns the children of a response by name, and the sorted names.
func childrenIn(response *hook.Response) (byName map[string]any, names []string) {
	byName = map[string]any{}
	for _, raw := range response.Children {
		fields, err := object.Decode(raw)
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

// semanticDifference returns the path of the first field that differs. It prefers one that differs
// in more than the notation of a quantity.
func semanticDifference(a, b any) string {
	return cmp.Or(object.DifferenceBy("", a, b, equivalent), object.FirstDifference(a, b))
}

// equivalent reports whether two values mean the same: as quantities, "1" is "1000m".
func equivalent(a, b any) bool {
	if object.EqualScalars(a, b) {
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
