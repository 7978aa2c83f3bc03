package load

import (
	"fmt"
	"strings"

	"github.com/setpoint-dev/setpoint/test/bench/internal/thing"
)

// maxExamples is how many wrong objects an error shows.
const maxExamples = 5

// MismatchError counts the objects that differ from the desired state, and names some.
type MismatchError struct {
	Wrong, Of  int
	Unexpected int
	Examples   []string
}

func (e *MismatchError) Error() string {
	var text strings.Builder
	fmt.Fprintf(&text, "%d of %d objects are not right", e.Wrong, e.Of)
	if e.Unexpected > 0 {
		fmt.Fprintf(&text, ", %d children are not wanted at all", e.Unexpected)
	}
	for _, example := range e.Examples {
		text.WriteString("\n  ")
		text.WriteString(example)
	}
	return text.String()
}

// Check says what is wrong now, and nil when nothing is.
func (t *Tracker) Check() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.wrong == 0 && len(t.unexpected) == 0 {
		return nil
	}
	wrong := &MismatchError{Wrong: t.wrong, Of: len(t.parents) + len(t.children), Unexpected: len(t.unexpected)}
	for i := range t.parents {
		t.explain(wrong, &t.parents[i], i, thing.Name(i))
	}
	for c := range t.children {
		i := c / t.goal.Children
		t.explain(wrong, &t.children[c], i, thing.ChildName(thing.Name(i), c%t.goal.Children))
	}
	for name := range t.unexpected {
		wrong.add("child " + name + " is not wanted")
	}
	return wrong
}

func (t *Tracker) explain(wrong *MismatchError, s *state, parent int, name string) {
	switch {
	case s.correct:
	case t.goal.Gone:
		wrong.add(name + " is still there")
	case !s.exists:
		wrong.add(name + " does not exist")
	case s.seen.Child:
		wrong.add(fmt.Sprintf("child %s holds %.40q, want %.40q", name, s.seen.Value, t.goal.Value(parent)))
	default:
		wrong.add(fmt.Sprintf("parent %s has status {ready: %d, value: %.40q}, want {ready: %d, value: %.40q}",
			name, s.seen.Ready, s.seen.Value, t.goal.Children, t.goal.Value(parent)))
	}
}

func (e *MismatchError) add(example string) {
	if len(e.Examples) < maxExamples {
		e.Examples = append(e.Examples, example)
	}
}
