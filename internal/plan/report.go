package plan

import (
	"encoding/json"
	"slices"
	"strings"
	"time"
	"unicode"

	setpoint "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// Phase is how far a parent is, as kstatus tells it.
type Phase int

// The phases of a Report.
const (
	// Unknown: there is nothing to say, and what was said before goes.
	Unknown Phase = iota
	// Synced: the children are as the hook wants them.
	Synced
	// Reconciling: not yet, and it goes on by itself.
	Reconciling
	// Stalled: not, and it does not go on without help.
	Stalled
	// Unchanged: the stored conditions still hold.
	Unchanged
)

// Report is what a controller says of a parent in the parent's own conditions.
type Report struct {
	Phase           Phase
	Reason, Message string
}

// reported are the types of those conditions. That of a type which the hook itself gives
// is the author's.
var reported = [...]string{setpoint.ConditionSynced, setpoint.ConditionReconciling, setpoint.ConditionStalled}

// conditions are those of a report. Reconciling and Stalled are only there while they are
// True, as kstatus wants it.
func (r Report) conditions() []hook.Condition {
	one := func(kind, status string) hook.Condition {
		return hook.Condition{Type: kind, Status: status, Reason: r.Reason, Message: r.Message}
	}
	switch r.Phase {
	case Synced:
		return []hook.Condition{one(setpoint.ConditionSynced, "True")}
	case Reconciling:
		return []hook.Condition{one(setpoint.ConditionSynced, "False"), one(setpoint.ConditionReconciling, "True")}
	case Stalled:
		return []hook.Condition{one(setpoint.ConditionSynced, "False"), one(setpoint.ConditionStalled, "True")}
	case Unknown, Unchanged:
	}
	return nil
}

// Authored are the types among the reported ones that a response gives itself.
func Authored(reply *hook.Response) []string {
	var status struct{ Conditions []struct{ Type string } }
	if reply.Status != nil && json.Unmarshal(reply.Status, &status) != nil {
		return nil // Conditions of another form have none of these types.
	}
	var types []string
	for _, kind := range reported {
		inStatus := slices.ContainsFunc(status.Conditions, func(c struct{ Type string }) bool { return c.Type == kind })
		if inStatus || slices.ContainsFunc(reply.Conditions, func(c hook.Condition) bool { return c.Type == kind }) {
			types = append(types, kind)
		}
	}
	return types
}

// Reported is the parent with the conditions of a report in its status, but for types that
// are the author's. A condition that says the same as the stored one stays as that is; if
// all of the status does, it is the stored parent itself.
func Reported(parent, stored *object.Object, report Report, authored []string, now time.Time) (*object.Object, error) {
	have, _ := tree(stored.Field("status"))
	want, _ := tree(parent.Field("status"))
	if want == nil {
		want = map[string]any{}
	}
	former, _ := have["conditions"].([]any)
	laid, given := want["conditions"].([]any)
	list := slices.DeleteFunc(slices.Clone(laid), func(item any) bool { return isReported(item, authored) })
	list = append(list, conditionStamp{parent.Generation(), now}.transition(former, report, authored)...)
	if given || len(list) > 0 {
		want["conditions"] = list
	}
	if len(list) == 0 && len(laid) > 0 {
		delete(want, "conditions")
	}
	if difference(have, want) == "" {
		return stored, nil
	}
	text, err := json.Marshal(want)
	if err != nil {
		return nil, err
	}
	return parent.With(text, "status")
}

// isReported says that a condition is one of a report.
func isReported(item any, authored []string) bool {
	fields, _ := item.(map[string]any)
	kind, _ := fields["type"].(string)
	return slices.Contains(reported[:], kind) && !slices.Contains(authored, kind)
}

// transition is the conditions of a report, as they are stored if those say the same.
func (s conditionStamp) transition(former []any, report Report, authored []string) []any {
	if report.Phase == Unchanged {
		return slices.DeleteFunc(slices.Clone(former), func(item any) bool { return !isReported(item, authored) })
	}
	var before, now []any
	same := true
	for _, c := range report.conditions() {
		if slices.Contains(authored, c.Type) {
			continue
		}
		made := conditionFields(c, former, s)
		now = append(now, made)
		if i := indexOfType(former, c.Type); i >= 0 {
			before = append(before, former[i])
			same = same && saysTheSame(former[i].(map[string]any), made)
		}
	}
	if same && len(before) == len(now) {
		return before
	}
	return now
}

// saysTheSame says that a stored condition says the same as another, of the same
// generation.
func saysTheSame(before, now map[string]any) bool {
	for _, name := range [...]string{"status", "reason", "observedGeneration"} {
		if difference(before[name], now[name]) != "" {
			return false
		}
	}
	former, _ := before["message"].(string)
	message, _ := now["message"].(string)
	return alike(former, message)
}

// alike says that two messages have the same words: ports, times and names made up by a
// machine, which have digits in them, do not count.
func alike(a, b string) bool { return slices.Equal(wordsOf(a), wordsOf(b)) }

func wordsOf(message string) []string {
	words := strings.FieldsFunc(message, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	return slices.DeleteFunc(words, func(word string) bool { return strings.ContainsFunc(word, unicode.IsDigit) })
}

// Unreported is a parent as hooks are shown it: without the conditions of reports. A hook
// that copies the status it is shown does not copy them.
func Unreported(stored *object.Object, authored []string) (*object.Object, error) {
	if stored.Field("status", "conditions") == nil {
		return stored, nil
	}
	status, err := tree(stored.Field("status"))
	if err != nil {
		return stored, nil //nolint:nilerr // It is no object, so that there is no condition in it.
	}
	former, _ := status["conditions"].([]any)
	list := slices.DeleteFunc(slices.Clone(former), func(item any) bool { return isReported(item, authored) })
	if len(list) == len(former) {
		return stored, nil
	}
	if status["conditions"] = list; len(list) == 0 {
		delete(status, "conditions")
	}
	if len(status) == 0 {
		return stored.With(nil, "status")
	}
	text, err := json.Marshal(status)
	if err != nil {
		return nil, err
	}
	return stored.With(text, "status")
}

// IsStalled says that a parent is reported to be stalled in its present generation.
func IsStalled(stored *object.Object, authored []string) bool {
	status, _ := tree(stored.Field("status"))
	list, _ := status["conditions"].([]any)
	i := indexOfType(list, setpoint.ConditionStalled)
	if i < 0 || slices.Contains(authored, setpoint.ConditionStalled) {
		return false
	}
	fields := list[i].(map[string]any)
	return fields["status"] == "True" && difference(fields["observedGeneration"], stored.Generation()) == ""
}
