package cli

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/setpoint-dev/setpoint/internal/dashboard/model"
	"github.com/setpoint-dev/setpoint/internal/dashboard/timeline"
)

// printer puts what is known of an object into words.
type printer struct {
	out  io.Writer
	full bool
	// color says that who reads wants it.
	color bool
	now   time.Time
	// several says that more than one controller did something.
	several bool
}

// line writes one, of which what others have written is clean.
func (t printer) line(depth int, format string, args ...any) {
	for i, arg := range args {
		if text, is := arg.(string); is {
			args[i] = clean(text)
		}
	}
	fmt.Fprintf(t.out, "%s%s\n", strings.Repeat("  ", depth), fmt.Sprintf(format, args...))
}

// styled writes a line in a tone, where who reads wants that.
func (t printer) styled(depth int, in style, format string, args ...any) {
	var text strings.Builder
	inner := t
	inner.out = &text
	inner.line(0, format, args...)
	if !t.color {
		in = plain
	}
	fmt.Fprintf(t.out, "%s%s\n", strings.Repeat("  ", depth), in.apply(strings.TrimSuffix(text.String(), "\n")))
}

// print tells how an object is doing, if that is to be told, and of its runs.
func (t printer) print(a explanation, state bool) {
	if state {
		if a.stored == nil {
			text := "is not there any more"
			if a.neverStored {
				text = "does not exist: its creation was denied"
			}
			t.line(0, "%s %s.", nameOf(a.Object), text)
		}
		for _, care := range a.States {
			t.printState(care)
		}
		if len(a.entries) == 0 {
			t.line(0, "")
			t.line(0, "No reconcile history is kept here.")
			t.printCaveats(a)
			return
		}
		if a.stored == nil || len(a.States) > 0 {
			t.line(0, "")
		}
		t.printCaveats(a)
		t.line(0, "Reconcile history, newest last:")
	}
	for i := range a.entries {
		t.several = t.several || a.entries[i].Controller != a.entries[0].Controller
	}
	for i := range a.entries {
		t.line(0, "")
		t.printEntry(&a.entries[i])
	}
}

// printDeletion ends a history.
func (t printer) printDeletion(d *timeline.Deletion) {
	t.line(0, "")
	if d.Requested.IsZero() {
		t.styled(0, bold, "%s", d.String())
		return
	}
	t.styled(0, bold, "%s  %s", t.moment(d.Requested), d.String())
}

// printCaveats says what processes cannot tell.
func (t printer) printCaveats(a explanation) {
	for _, caveat := range a.Caveats {
		t.line(0, "%s", caveat)
	}
}

// stateText is how an object is doing, in words.
func (t printer) stateText(c visibleState) string {
	text := map[model.State]string{
		model.StateFailing: "is failing", model.StateConflicting: "does not settle: it is written again and again",
		model.StateQueued: "waits for its turn", model.StatePaused: "is left alone, because its annotation setpoint.dev/paused says so",
		model.StateSynced: "is well", model.StateUnknown: "is not worked on here yet",
	}[c.State]
	switch {
	case c.Attempts > 1 && c.State == model.StateFailing:
		text += fmt.Sprintf(", %d times in a row", c.Attempts)
		if !c.FailingSince.IsZero() {
			text += " since " + t.clock(c.FailingSince)
		}
	case c.Suspended:
		text = "is left alone: its controller is suspended by its spec"
	case c.Standby && c.State == model.StateUnknown:
		text = "is cared for elsewhere: how it is doing is not known here"
	}
	return text
}

// notStartedHint says what objects wait for that nobody works on.
const notStartedHint = "Its controller begins once it can watch all that it needs: its condition Ready, and the watches of the process, say what is missing."

// printState says how an object is doing in the care of one controller.
func (t printer) printState(c visibleState) {
	state := styleOf("STATE", string(c.State))
	t.styled(0, state, "%s %s.", nameOf(c.Ref), t.stateText(c))
	if said := problemOf(c.ObjectState); said != "" {
		t.styled(1, state, "%s", said)
	}
	if c.State == model.StateUnknown && !c.Standby && !c.Suspended {
		t.line(1, notStartedHint)
	}
	if !c.Next.IsZero() {
		next := "Next run"
		if c.State == model.StateFailing {
			next = "Next retry"
		}
		t.line(1, "%s %s, at %s.", next, in(c.Next, t.now), t.clock(c.Next))
	}
	if c.Deleting {
		t.line(1, "It is being deleted.")
	}
	t.line(1, "Managed by %s in the process %s%s.", c.Controller, c.Process, t.childCount(c))
	for _, child := range c.ChildStates {
		t.line(2, "%s", childLine(child))
	}
	if c.Hidden > 0 {
		t.line(2, "%s", hiddenCount(c.Hidden))
	}
}

// problemOf is what an object fails with, or what of it does not settle.
func problemOf(c model.ObjectState) string { return cmp.Or(c.Error, c.Conflict) }

// childCount counts the children.
func (t printer) childCount(c visibleState) string {
	made := len(c.ChildStates) + c.Hidden
	if made == 0 {
		return ""
	}
	return ", with " + plural(made, "child", "children")
}

func childLine(c model.Child) string {
	text := nameOf(c.Ref) + "  " + c.Health
	if c.Message != "" {
		text += ": " + c.Message
	}
	return text
}

// printController says how a controller is doing, of which the object asked about is the
// declaration.
func (t printer) printController(c model.Controller) {
	shows := "objects"
	if c.AllReplicas {
		shows = "latest reviews"
		t.line(0, "%s is a controller of the process %s, which reviews what others write.", c.Name, c.Process)
	} else {
		t.line(0, "%s is a controller of the process %s, and manages %s, %d failing.", c.Name, c.Process, plural(c.Objects, "object", "objects"), c.Failing)
	}
	for _, words := range c.Description {
		t.line(1, "%s", words)
	}
	for _, condition := range c.Conditions {
		t.line(1, "%s is %s (%s): %s", condition.Type, condition.Status, condition.Reason, condition.Message)
	}
	for _, note := range c.Notes {
		t.line(1, "Note: %s", note)
	}
	if c.Last != nil {
		t.line(1, "It failed last %s ago: %s", ago(c.Last.Time, t.now), failureLine(c.Last))
	}
	t.line(0, "")
	t.line(0, "`setpoint get %s -A` shows its %s.", c.Name, shows)
}

// clock is a time of day, with the day where it is not today.
func (t printer) clock(at time.Time) string {
	at = at.In(t.now.Location())
	if at.YearDay() != t.now.YearDay() || at.Year() != t.now.Year() {
		return at.Format("2006-01-02 15:04:05")
	}
	return at.Format("15:04:05")
}

// moment is a clock that tells runs apart which follow each other at once.
func (t printer) moment(at time.Time) string {
	return t.clock(at) + at.Format(".000")
}

// printAdvice says what to do about what goes wrong.
func (t printer) printAdvice(a explanation) {
	said := map[string]bool{}
	for _, c := range a.States {
		for _, idea := range adviceOn(c.ObjectState) {
			if said[idea] {
				continue
			}
			if len(said) == 0 {
				t.line(0, "")
				t.line(0, "What to do:")
			}
			said[idea] = true
			t.line(1, "- %s", idea)
		}
	}
}

// adviceOn are what to do about an object that is not well.
func adviceOn(c model.ObjectState) []string {
	var all []string
	switch c.State {
	case model.StatePaused:
		return []string{"`kubectl annotate " + argOf(c.Ref) + " setpoint.dev/paused-` has it taken care of again"}
	case model.StateConflicting:
		return []string{"look which fields change from run to run, with `setpoint why " + argOf(c.Ref) + " --full`: two write what the other does not want, or an answer is never twice the same"}
	case model.StateFailing:
	default:
		return nil
	}
	if help := model.AdviceFor(c.Fault).Help; help != "" {
		all = append(all, help)
	}
	all = append(all, "to retry now: `kubectl annotate --overwrite "+argOf(c.Ref)+" setpoint.dev/reconcile-at=\"$(date +%s)\"`")
	return all
}
