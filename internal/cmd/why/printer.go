package why

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/setpoint-dev/setpoint/internal/cli/client"
	"github.com/setpoint-dev/setpoint/internal/cli/command"
	"github.com/setpoint-dev/setpoint/internal/cli/output"
	"github.com/setpoint-dev/setpoint/internal/dashboard/timeline"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// printer prints explanations as text.
type printer struct {
	out  io.Writer
	full bool
	// color enables styles.
	color bool
	now   time.Time
	// several reports that the history has runs of several controllers.
	several bool
	// readable limits what is said of objects, if the user cannot get some in the run.
	readable string
}

// line prints a line. String arguments are escaped.
func (t printer) line(depth int, format string, args ...any) {
	for i, arg := range args {
		if text, is := arg.(string); is {
			args[i] = output.Clean(text)
		}
	}
	fmt.Fprintf(t.out, "%s%s\n", strings.Repeat("  ", depth), fmt.Sprintf(format, args...))
}

// styled prints a line in a style.
func (t printer) styled(depth int, in output.Style, format string, args ...any) {
	var text strings.Builder
	inner := t
	inner.out = &text
	inner.line(0, format, args...)
	if !t.color {
		in = output.Plain
	}
	fmt.Fprintf(t.out, "%s%s\n", strings.Repeat("  ", depth), in.Apply(strings.TrimSuffix(text.String(), "\n")))
}

// print prints the history of an object, with its state first if state is set.
func (t printer) print(a explanation, state bool) {
	if state {
		if a.stored == nil {
			text := "does not exist" // It may never have existed, such as after the review of a dry run.
			if a.neverStored {
				text += ": its creation was denied"
			}
			t.line(0, "%s %s.", client.NameOf(a.Object), text)
		}
		for _, care := range a.States {
			t.printState(care)
		}
		if run := a.lastDenial; run != nil && a.stored != nil {
			review := run.Review()
			t.styled(0, output.Red, "The last request to change it, %s by %s %s ago, was denied by the webhook %s of %s: %s",
				review.Operation, review.User, output.Ago(run.Began, t.now), run.Steps[0].Call.Name, run.Controller, run.ReviewMessage())
		}
		if len(a.entries) == 0 {
			t.line(0, "")
			t.line(0, "There is no reconcile history.")
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

// printDeletion prints the end of the history.
func (t printer) printDeletion(d *timeline.Deletion) {
	t.line(0, "")
	if d.Requested.IsZero() {
		t.styled(0, output.Bold, "%s", d.String())
		return
	}
	t.styled(0, output.Bold, "%s  %s", t.moment(d.Requested), d.String())
}

// printCaveats prints what the processes do not know.
func (t printer) printCaveats(a explanation) {
	for _, caveat := range a.Caveats {
		t.line(0, "%s", caveat)
	}
}

// stateText returns the state of an object for a sentence.
func (t printer) stateText(c client.VisibleState) string {
	text := map[inspect.State]string{
		inspect.StateFailing: "is failing", inspect.StateConflicting: "is conflicting: it is written again and again",
		inspect.StateQueued: "is queued", inspect.StatePaused: "is paused by its annotation setpoint.dev/paused",
		inspect.StateSynced: "is synced", inspect.StateUnknown: "has not been reconciled here yet",
	}[c.State]
	switch {
	case c.Attempts > 1 && c.State == inspect.StateFailing:
		text += fmt.Sprintf(", %d times in a row", c.Attempts)
		if !c.FailingSince.IsZero() {
			text += " since " + t.clock(c.FailingSince)
		}
	case c.Suspended:
		text = "is suspended: its controller has spec.suspend set"
	case c.Standby && c.State == inspect.StateUnknown:
		text = "is managed by another replica: its state is not known here"
	}
	return text
}

// notStartedHint is printed for objects whose controller has not started.
const notStartedHint = "Its controller starts once all its watches are synced. Its condition Ready, and the watches of the process, " +
	"show what is missing."

// printState prints the state of an object under one controller.
func (t printer) printState(c client.VisibleState) {
	state := output.StyleOf("STATE", string(c.State))
	t.styled(0, state, "%s %s.", client.NameOf(c.Ref), t.stateText(c))
	if said := c.Problem(); said != "" {
		t.styled(1, state, "%s", said)
	}
	if page := failure.Page(c.Reason, command.ReadVersion().Version); page != "" {
		t.line(1, "%s: %s", c.Reason, page)
	}
	if c.State == inspect.StateUnknown && !c.Standby && !c.Suspended {
		t.line(1, notStartedHint)
	}
	if !c.Next.IsZero() {
		next := "Next run"
		if c.State == inspect.StateFailing {
			next = "Next retry"
		}
		t.line(1, "%s %s, at %s.", next, output.In(c.Next, t.now), t.clock(c.Next))
	}
	if c.Deleting {
		t.line(1, "It is being deleted.")
	}
	t.line(1, "Managed by %s in the process %s%s.", c.Controller, c.Process, t.childCount(c))
	for _, child := range c.ChildStates {
		t.line(2, "%s", childLine(child))
	}
	if c.Hidden > 0 {
		t.line(2, "%s", client.HiddenCount(c.Hidden))
	}
	if c.LogicVersion != "" {
		t.line(1, "Its latest response has the logicVersion %s.", c.LogicVersion)
	}
	if len(c.Shadow) > 0 {
		t.line(1, "The new version of the hooks, which is compared in the shadow, would respond differently:")
	}
	for _, text := range c.Shadow {
		t.line(2, "%s", text)
	}
}

// childCount returns the number of children for a sentence.
func (t printer) childCount(c client.VisibleState) string {
	made := len(c.ChildStates) + c.Hidden
	if made == 0 {
		return ""
	}
	return ", with " + output.Plural(made, "child", "children")
}

func childLine(c inspect.Child) string {
	text := client.NameOf(c.Ref) + "  " + c.Health
	if c.Message != "" {
		text += ": " + c.Message
	}
	return text
}

// printController prints the state of the controller that the object declares.
func (t printer) printController(c inspect.Controller) {
	list := fmt.Sprintf("`setpoint get %s -A` lists its objects.", c.Name)
	if c.AllReplicas {
		list = fmt.Sprintf("`setpoint get reviews %s -A` lists its reviews.", c.Name)
		t.line(0, "%s is a controller of the process %s, which reviews requests of other clients.", c.Name, c.Process)
	} else {
		t.line(0, "%s is a controller of the process %s, and manages %s, %d failing.",
			c.Name, c.Process, output.Plural(c.Objects, "object", "objects"), c.Failing)
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
		t.line(1, "Last failure %s ago: %s", output.Ago(c.Last.Time, t.now), c.Last.Line())
	}
	t.line(0, "")
	t.line(0, "%s", list)
}

// clock formats a time, with the date unless it is today.
func (t printer) clock(at time.Time) string {
	at = at.In(t.now.Location())
	if at.YearDay() != t.now.YearDay() || at.Year() != t.now.Year() {
		return at.Format("2006-01-02 15:04:05")
	}
	return at.Format("15:04:05")
}

// moment is clock with milliseconds, to tell consecutive runs apart.
func (t printer) moment(at time.Time) string {
	return t.clock(at) + at.Format(".000")
}

// printAdvice prints what to do about problems.
func (t printer) printAdvice(a explanation) {
	said := map[string]bool{}
	for _, c := range a.States {
		ideas := adviceOn(c.ObjectState)
		if d := a.Deletion; c.State == inspect.StateFailing && d != nil && len(d.Finalizers) > 0 {
			ideas = append(ideas, "if what it waits for will not come back: "+releaseAdvice(c.Ref))
		}
		for _, idea := range ideas {
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

// releaseAdvice is the last way out of a deletion.
func releaseAdvice(ref object.Ref) string {
	return "`setpoint release " + client.CommandArg(ref) + "` removes Setpoint's finalizers, without a call of a hook or handler"
}

// adviceOn returns what to do about an object that is paused or has a problem.
func adviceOn(c inspect.ObjectState) []string {
	var all []string
	switch c.State {
	case inspect.StatePaused:
		return []string{"to resume: `kubectl annotate " + client.CommandArg(c.Ref) + " setpoint.dev/paused-`"}
	case inspect.StateConflicting:
		return []string{"find the fields that change in each run with `setpoint why " + client.CommandArg(c.Ref) +
			" --full`: another client writes them too, or the hook is not deterministic"}
	case inspect.StateFailing:
	default:
		return nil
	}
	advice := inspect.AdviceFor(c.Fault)
	if advice.Help != "" {
		all = append(all, advice.Help)
	}
	if advice.Waits {
		return all
	}
	all = append(all, "to retry now: `setpoint reconcile "+output.Clean(c.Controller)+" "+client.CommandArg(c.Ref)+"`")
	return all
}
