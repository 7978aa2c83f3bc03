package starlark

import (
	"time"

	"go.starlark.net/starlark"
)

const (
	maxDepth           = 1000
	stepsBetweenChecks = 1000
)

// limits end code that runs too long, or that nests too many calls: they are calls of Go, and a stack
// without end would end the process. The language bounds neither.
type limits struct {
	deadline time.Time // zero for none
	// lastStep is the last step in which the place of code that is too late is looked for.
	lastStep uint64
}

// check is called now and then while code runs.
func (l *limits) check(t *starlark.Thread) {
	steps := uint64(stepsBetweenChecks)
	late := !l.deadline.IsZero() && time.Now().After(l.deadline)
	switch {
	case t.CallStackDepth() > maxDepth:
		t.Cancel(tooDeep)
	case late && l.lastStep == 0:
		l.lastStep, steps = t.Steps+stepsBetweenChecks, 1
	case late && !isLocated(t) && t.Steps < l.lastStep:
		steps = 1
	case late:
		t.Cancel(tooLate)
	}
	t.SetMaxExecutionSteps(t.Steps + steps)
}

// isLocated reports whether the place of the code is known. Only steps that can fail have one; others
// have that of their function.
func isLocated(t *starlark.Thread) bool {
	frame := t.DebugFrame(0)
	function, is := frame.Callable().(*starlark.Function)
	return !is || frame.Position() != function.Position()
}
