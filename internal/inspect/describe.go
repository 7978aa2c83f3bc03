package inspect

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/admission"
	"github.com/setpoint-dev/setpoint/internal/controller/composite"
	"github.com/setpoint-dev/setpoint/internal/controller/handler"
	"github.com/setpoint-dev/setpoint/internal/controller/handler/permit"
	"github.com/setpoint-dev/setpoint/internal/controller/trigger"
	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
)

// Programs are the parts of one controller. Addresses are those of its hooks; none for a Go program.
type Programs struct {
	Hooks     []composite.Program
	Handlers  []handler.Program
	Reviews   *admission.Program
	Addresses []string
}

// Describe returns sentences about what a controller does.
func Describe(p Programs) []string {
	words := []string{}
	for i := range p.Hooks {
		// A controller that is limited to namespaces has a program for each.
		if !slices.ContainsFunc(p.Hooks[:i], func(other composite.Program) bool { return other.Parent == p.Hooks[i].Parent }) {
			words = append(words, describeHooks(&p.Hooks[i])...)
		}
	}
	for i := range p.Handlers {
		words = append(words, describeHandlers(&p.Handlers[i])...)
	}
	if p.Reviews != nil {
		words = append(words, lists.Map(p.Reviews.Webhooks, describeWebhook)...)
	}
	if len(p.Addresses) > 0 {
		words = append(words, with("Calls its hooks: ", p.Addresses...)+".")
	}
	return words
}

// with returns the words that are not empty after a prefix; "" if all are.
func with(prefix string, words ...string) string {
	words = lists.Filter(words, func(word string) bool { return word != "" })
	if len(words) == 0 {
		return ""
	}
	return prefix + strings.Join(words, ", ")
}

// describeKind returns a kind with its group, such as "Deployment (apps/v1)".
func describeKind(r object.Resource) string { return r.Kind + " (" + r.APIVersion() + ")" }

func describeHooks(p *composite.Program) []string {
	selections := lists.Map(p.Selections, func(s composite.Selection) string { return with("with ", s.String()) })
	in := "in "
	if !p.Parent.Namespaced {
		in = "with children in "
	}
	words := []string{with("Manages ", describeKind(p.Parent), strings.Join(selections, " or "), with("where ", p.Fields),
		with(in, p.Namespaces...)) + "."}
	owned := "the object's spec.selector"
	switch {
	case p.Mark != plan.Mark{}:
		owned = "their owner and the annotation " + p.Mark.Key + ": " + p.Mark.Value
	case p.GenerateSelector:
		owned = "a label with the object's UID"
	}
	for i := range p.Children {
		rule := &p.Children[i]
		how := string(cmp.Or(rule.Method, plan.OnDelete))
		if rule.Strategy == plan.ServerSide {
			how += ", by server-side apply"
		}
		if rule.Method.Rolling() {
			how += fmt.Sprintf(", %d at a time", max(rule.MaxUnavailable, 1))
		}
		words = append(words, "Manages "+rule.Resource.Kind+" children ("+how+"), selected by "+owned+".")
	}
	if p.Finalize != nil {
		words = append(words, "Keeps deleted objects until the finalize hook reports that it is done (finalizer "+p.Finalizer+").")
	}
	if p.Customize != nil {
		words = append(words, "Asks the customize hook for related objects.")
	}
	if p.Resync > 0 {
		words = append(words, "Resyncs each object every "+roundDuration(p.Resync)+".")
	}
	return words
}

func describeHandlers(p *handler.Program) []string {
	kind := func(r object.Resource) string { return r.Kind }
	words := []string{with("Handles ", describeKind(p.Resource), with("with labels ", p.Labels), with("where ", p.Fields),
		with("in ", p.Namespaces...)) + "."}
	for i := range p.Handlers {
		words = append(words, describeHandler(&p.Handlers[i]))
	}
	for i := range p.Related {
		words = append(words, "Watches related "+p.Related[i].Resource.Kind+" objects.")
	}
	if len(p.Owns) > 0 {
		words = append(words, with("Owns what it applies of ", lists.Map(p.Owns, kind)...)+".")
	}
	return append(words, lists.Map(p.Writes, describeWrite)...)
}

func describeHandler(h *trigger.Handler) string {
	name := "Handler " + h.Name
	if h.Daemon != nil {
		name = "Daemon " + h.Name
	}
	var when []string
	for _, reason := range h.On {
		switch reason {
		case hook.ReasonTimer: // Its schedule follows.
		case hook.ReasonUpdate:
			fields := lists.Map(h.Fields, func(path []string) string { return strings.Join(path, ".") })
			when = append(when, "update"+with(" of ", strings.Join(fields, " and ")))
		default:
			when = append(when, strings.ToLower(string(reason)))
		}
	}
	if schedule, is := h.Schedule.(fmt.Stringer); is {
		when = append(when, "at "+schedule.String())
	}
	for _, one := range []struct {
		is   bool
		text string
	}{
		{h.Schedule == nil && h.Every > 0, "every " + roundDuration(h.Every)},
		{h.FromFirstSeen, "first " + roundDuration(h.InitialDelay) + " after the start"},
		{h.Idle > 0, "after " + roundDuration(h.Idle) + " without changes"},
		{h.Debounce > 0, "updates debounced by " + roundDuration(h.Debounce)},
		{h.When != nil || h.Expression != nil, "if its condition holds"},
		{h.Conditional, "if it finds itself applicable"},
		{h.Retries < 0, "without retries"},
		{h.Retries > 0, fmt.Sprintf("up to %d retries", h.Retries)},
		{h.Retries == 0 && h.RetryTimeout > 0, "retries for " + roundDuration(h.RetryTimeout)},
	} {
		if one.is {
			when = append(when, one.text)
		}
	}
	return name + with(": ", when...) + "."
}

func describeWrite(w permit.Write) string {
	verbs := map[bool][3]string{true: {"apply", "delete", "evict"}}
	return with("May ", verbs[w.Apply][0], verbs[w.Delete][1], verbs[w.Evict][2]) + " " +
		with("", w.Resource.Kind+" objects", with("with labels ", w.Labels), with("in namespace ", w.Namespace)) + "."
}

func describeWebhook(w admission.Webhook) string {
	rules := lists.Map(w.Rules, func(r admission.Rule) string {
		operations := lists.Map(r.Operations, func(operation hook.Operation) string { return strings.ToLower(string(operation)) })
		return with("", operations...) + with(" of ", r.Resources...) + " (" +
			object.Resource{Group: r.Group, Version: r.Version}.APIVersion() + ")"
	})
	what, policy := "deny", "Fail"
	if w.Mutates {
		what = "mutate or deny"
	}
	if w.Ignore {
		policy = "Ignore"
	}
	return "Webhook " + w.Name + " may " + what + ": " + strings.Join(rules, "; ") + ". Failure policy " + policy + "."
}

// roundDuration formats a duration without trailing zeros: "1h", not "1h0m0s".
func roundDuration(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// Age formats a duration of at least a second as kubectl does: 12s, 5m, 3h, 2d.
func Age(d time.Duration) string {
	switch {
	case d < 2*time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < 2*time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	}
	return fmt.Sprintf("%dd", int(d.Hours()/24))
}
