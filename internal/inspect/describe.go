package inspect

import (
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

// Programs are the parts of one controller. Addresses are those of its hooks; none for a Go
// program.
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
	if len(p.Hooks) > 0 {
		words = append(words, describeCalls(&p.Hooks[0], p.Addresses))
	}
	for i := range p.Handlers {
		words = append(words, describeHandlers(&p.Handlers[i])...)
	}
	if p.Reviews != nil {
		for i := range p.Reviews.Webhooks {
			words = append(words, describeWebhook(&p.Reviews.Webhooks[i]))
		}
	}
	if len(p.Hooks) == 0 && len(p.Addresses) > 0 {
		words = append(words, "Calls its hooks "+describeAddresses(p.Addresses)+".")
	}
	return words
}

// joinAnd returns "a", "a and b" or "a, b and c".
func joinAnd(words []string) string {
	last := len(words) - 1
	if last < 1 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:last], ", ") + " and " + words[last]
}

// joinNonEmpty joins the words that are not empty.
func joinNonEmpty(words ...string) string {
	said := lists.Filter(words, func(word string) bool { return word != "" })
	return strings.Join(said, ", ")
}

// describeKind returns a kind with its group, such as "Deployment (apps/v1)".
func describeKind(r object.Resource) string { return r.Kind + " (" + r.APIVersion() + ")" }

func prefixed(prefix, text string) string {
	if text == "" {
		return ""
	}
	return prefix + text
}

// describeHooks describes a composite or decorator controller.
func describeHooks(p *composite.Program) []string {
	var selections []string
	for _, s := range p.Selections {
		if text := s.String(); text != "" {
			selections = append(selections, text)
		}
	}
	in := prefixed("in ", describeNamespaces(p.Namespaces))
	if !p.Parent.Namespaced {
		in = prefixed("with children ", in)
	}
	words := []string{"Manages " + joinNonEmpty(describeKind(p.Parent),
		prefixed("with ", strings.Join(selections, ", or ")), prefixed("where ", p.Fields), in) + "."}
	for i := range p.Children {
		words = append(words, describeChildren(p, &p.Children[i]))
	}
	if p.Finalize != nil {
		words = append(words, "Keeps deleted objects until the finalize hook reports that it is done (finalizer "+p.Finalizer+").")
	}
	if p.Resync > 0 {
		words = append(words, "Resyncs each object every "+roundDuration(p.Resync)+".")
	}
	return words
}

// describeChildren describes how one kind of children is managed.
func describeChildren(p *composite.Program, rule *plan.Rule) string {
	how := string(rule.Method)
	if how == "" {
		how = string(plan.OnDelete)
	}
	if rule.Strategy == plan.ServerSide {
		how += ", by server-side apply"
	}
	if rule.Method.Rolling() {
		how += fmt.Sprintf(", %d at a time", max(rule.MaxUnavailable, 1))
	}
	return "Manages " + rule.Resource.Kind + " children (" + how + "), selected by " + describeOwnership(p) + "."
}

func describeOwnership(p *composite.Program) string {
	switch {
	case p.Mark != plan.Mark{}:
		return "their owner and the annotation " + p.Mark.Key + ": " + p.Mark.Value
	case p.GenerateSelector:
		return "a label with the object's UID"
	}
	return "the object's spec.selector"
}

// describeCalls describes the hooks and where they are called.
func describeCalls(p *composite.Program, addresses []string) string {
	hooks := []string{"sync"}
	if p.Finalize != nil {
		hooks = append(hooks, "finalize")
	}
	if p.Customize != nil {
		hooks = append(hooks, "customize")
	}
	noun := "the hook "
	if len(hooks) > 1 {
		noun = "the hooks "
	}
	if len(addresses) == 0 {
		return "Calls " + noun + joinAnd(hooks) + " in this process."
	}
	return "Calls " + noun + joinAnd(hooks) + " " + describeAddresses(addresses) + "."
}

// describeAddresses describes where hooks are: at a host and port, inline, or programs.
func describeAddresses(addresses []string) string {
	var places []string
	for _, address := range addresses {
		program, isProgram := strings.CutPrefix(address, "exec:")
		switch {
		case address == "inline":
			places = append(places, "inline")
		case isProgram:
			places = append(places, "as the program "+program)
		default:
			places = append(places, "at "+address)
		}
	}
	return joinAnd(places)
}

// describeHandlers describes a handler controller.
func describeHandlers(p *handler.Program) []string {
	words := []string{"Handles " + joinNonEmpty(describeKind(p.Resource),
		prefixed("with labels ", p.Labels), prefixed("where ", p.Fields), prefixed("in ", describeNamespaces(p.Namespaces))) + "."}
	for i := range p.Handlers {
		words = append(words, describeHandler(&p.Handlers[i]))
	}
	if len(p.Related) > 0 {
		related := make([]object.Resource, len(p.Related))
		for i := range p.Related {
			related[i] = p.Related[i].Resource
		}
		words = append(words, "Watches related "+joinAnd(kindsOf(related))+" objects.")
	}
	if len(p.Owns) > 0 {
		words = append(words, "Owns the "+joinAnd(kindsOf(p.Owns))+" objects that it applies.")
	}
	for i := range p.Writes {
		words = append(words, describeWrite(&p.Writes[i]))
	}
	return words
}

func kindsOf(resources []object.Resource) []string {
	kinds := make([]string, len(resources))
	for i, r := range resources {
		kinds[i] = r.Kind
	}
	return kinds
}

func describeNamespaces(namespaces []string) string {
	if len(namespaces) == 1 {
		return "namespace " + namespaces[0]
	}
	return prefixed("namespaces ", joinAnd(namespaces))
}

// describeHandler describes when a handler is called.
func describeHandler(h *trigger.Handler) string {
	condition := ""
	if h.When != nil || h.Expression != nil {
		condition = ", if its condition holds"
	}
	if h.Conditional {
		condition += ", if it finds itself applicable"
	}
	if h.Daemon != nil {
		return "Runs daemon " + h.Name + " for each object" + condition + "."
	}
	var of []string
	for _, reason := range h.On {
		if reason != hook.ReasonTimer {
			of = append(of, describeReason(h, reason))
		}
	}
	words := "Calls handler " + h.Name
	if len(of) > 0 {
		words += " on " + joinAnd(of)
	}
	return words + condition + prefixed("; ", joinNonEmpty(describeTimer(h), describeRetries(h))) + "."
}

// describeReason describes a reason for a call.
func describeReason(h *trigger.Handler, reason hook.Reason) string {
	switch reason {
	case hook.ReasonEvent:
		return "every event"
	case hook.ReasonDrift:
		return "drift of owned objects"
	case hook.ReasonRelated:
		return "changes of related objects"
	case hook.ReasonUpdate:
		return "update" + prefixed(" of ", joinAnd(pathsOf(h.Fields)))
	}
	return strings.ToLower(string(reason))
}

func pathsOf(fields [][]string) []string {
	paths := make([]string, len(fields))
	for i, path := range fields {
		paths[i] = strings.Join(path, ".")
	}
	return paths
}

// describeTimer describes the schedule of a handler.
func describeTimer(h *trigger.Handler) string {
	when := ""
	switch schedule := h.Schedule.(type) {
	case nil:
		if h.Every > 0 {
			when = "every " + roundDuration(h.Every)
		}
		if h.FromFirstSeen {
			when += " since " + roundDuration(h.InitialDelay) + " after the start"
		}
	case fmt.Stringer:
		when = "at " + schedule.String()
	default:
		when = "on its schedule"
	}
	if when != "" && h.Idle > 0 {
		when += " after " + roundDuration(h.Idle) + " without changes"
	}
	if h.Debounce > 0 {
		when = joinNonEmpty(when, "updates debounced by "+roundDuration(h.Debounce))
	}
	return when
}

func describeRetries(h *trigger.Handler) string {
	switch {
	case h.Retries < 0:
		return "once"
	case h.Retries > 0:
		return fmt.Sprintf("up to %d retries", h.Retries)
	case h.RetryTimeout > 0:
		return "retries for " + roundDuration(h.RetryTimeout)
	}
	return ""
}

// describeWrite describes a permission to write other objects.
func describeWrite(w *permit.Write) string {
	var verbs []string
	for _, one := range []struct {
		may  bool
		verb string
	}{{w.Apply, "apply"}, {w.Delete, "delete"}, {w.Evict, "evict"}} {
		if one.may {
			verbs = append(verbs, one.verb)
		}
	}
	return "May " + joinAnd(verbs) + " " + joinNonEmpty(w.Resource.Kind+" objects", prefixed("with labels ", w.Labels),
		prefixed("in namespace ", w.Namespace)) + "."
}

// describeWebhook describes an admission webhook.
func describeWebhook(w *admission.Webhook) string {
	rules := lists.Map(w.Rules, func(rule admission.Rule) string { return describeRule(&rule) })
	what := "deny"
	if w.Mutates {
		what = "mutate or deny"
	}
	words := "Webhook " + w.Name + " may " + what + ": " + strings.Join(rules, "; ")
	if w.Ignore {
		return words + ". Failure policy Ignore."
	}
	return words + ". Failure policy Fail."
}

func describeRule(r *admission.Rule) string {
	operations := lists.Map(r.Operations, func(operation hook.Operation) string { return strings.ToLower(string(operation)) })
	where := object.Resource{Group: r.Group, Version: r.Version}
	return joinAnd(operations) + " of " + joinAnd(r.Resources) + " (" + where.APIVersion() + ")"
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
