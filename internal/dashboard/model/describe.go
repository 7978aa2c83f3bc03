package model

import (
	"fmt"
	"strings"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/admission"
	"github.com/setpoint-dev/setpoint/internal/controller/compose"
	"github.com/setpoint-dev/setpoint/internal/controller/handle"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
)

// Programs are those of one controller, and where its hooks are: hosts and ports, none
// for functions of a Go program.
type Programs struct {
	Hooks     []compose.Program
	Handlers  []handle.Program
	Reviews   *admission.Program
	Addresses []string
}

// Describe says in sentences what the programs do.
func Describe(p Programs) []string {
	words := []string{}
	for i := range p.Hooks {
		words = append(words, describeHooks(&p.Hooks[i])...)
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
		words = append(words, "Asks at "+joinAnd(p.Addresses)+".")
	}
	return words
}

// joinAnd is "a", "a and b" or "a, b and c".
func joinAnd(words []string) string {
	last := len(words) - 1
	if last < 1 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:last], ", ") + " and " + words[last]
}

// joinNonEmpty adds to a list what is said.
func joinNonEmpty(words ...string) string {
	var said []string
	for _, word := range words {
		if word != "" {
			said = append(said, word)
		}
	}
	return strings.Join(said, ", ")
}

// describeKind is a kind with its group, such as "Deployment (apps/v1)".
func describeKind(r object.Resource) string { return r.Kind + " (" + r.APIVersion() + ")" }

func prefixed(prefix, text string) string {
	if text == "" {
		return ""
	}
	return prefix + text
}

// describeHooks are about a program that asks hooks what should be.
func describeHooks(p *compose.Program) []string {
	var selections []string
	for _, s := range p.Selections {
		if text := s.String(); text != "" {
			selections = append(selections, text)
		}
	}
	words := []string{"Cares for " + joinNonEmpty(describeKind(p.Parent),
		prefixed("with ", strings.Join(selections, ", or ")), prefixed("where ", p.Fields), prefixed("in namespace ", p.Namespace)) + "."}
	for i := range p.Children {
		words = append(words, describeChildren(p, &p.Children[i]))
	}
	if p.Finalize != nil {
		words = append(words, "Keeps an object that is deleted until the finalize hook says that nothing is left (finalizer "+p.Finalizer+").")
	}
	if p.Resync > 0 {
		words = append(words, "Looks at each object every "+roundDuration(p.Resync)+" although nothing happens.")
	}
	return words
}

// describeChildren say how one kind of children is kept and found.
func describeChildren(p *compose.Program, rule *plan.Rule) string {
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
	return "Keeps " + rule.Resource.Kind + " objects (" + how + "), found by " + describeOwnership(p) + "."
}

func describeOwnership(p *compose.Program) string {
	switch {
	case p.Mark != plan.Mark{}:
		return "their owner and the annotation " + p.Mark.Key + ": " + p.Mark.Value
	case p.GenerateSelector:
		return "a label made of the object's UID"
	}
	return "the object's spec.selector"
}

// describeCalls say who is asked what should be, and where that is.
func describeCalls(p *compose.Program, addresses []string) string {
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
		return "Asks " + noun + joinAnd(hooks) + ", in this process."
	}
	return "Asks " + noun + joinAnd(hooks) + " at " + joinAnd(addresses) + "."
}

// describeHandlers are about a program of handlers.
func describeHandlers(p *handle.Program) []string {
	words := []string{"Handles " + joinNonEmpty(describeKind(p.Resource),
		prefixed("with labels ", p.Labels), prefixed("where ", p.Fields), prefixed("in ", describeNamespaces(p.Namespaces))) + "."}
	for i := range p.Handlers {
		words = append(words, describeHandler(&p.Handlers[i]))
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

// describeHandler say when a handler is told.
func describeHandler(h *handle.Handler) string {
	condition := ""
	if h.When != nil {
		condition = ", where its condition holds"
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
	words := "Tells handler " + h.Name
	if len(of) > 0 {
		words += " of " + joinAnd(of)
	}
	return words + condition + prefixed("; ", joinNonEmpty(describeTimer(h), describeRetries(h))) + "."
}

// describeReason are what a handler is told of, and of which fields.
func describeReason(h *handle.Handler, reason hook.Reason) string {
	switch reason {
	case hook.ReasonEvent:
		return "every event"
	case hook.ReasonDrift:
		return "drift of what it owns"
	case hook.ReasonUpdate:
		return "update" + prefixed(" of ", joinAnd(pathsOf(h.Fields)))
	}
	return string(reason)
}

func pathsOf(fields [][]string) []string {
	paths := make([]string, len(fields))
	for i, path := range fields {
		paths[i] = strings.Join(path, ".")
	}
	return paths
}

// describeTimer say when the clock has a handler told.
func describeTimer(h *handle.Handler) string {
	when := ""
	switch schedule := h.Schedule.(type) {
	case nil:
		if h.Every > 0 {
			when = "every " + roundDuration(h.Every)
		}
	case fmt.Stringer:
		when = "at " + schedule.String()
	default:
		when = "by its schedule"
	}
	if when != "" && h.Idle > 0 {
		when += " once nothing has changed for " + roundDuration(h.Idle)
	}
	if h.Debounce > 0 {
		when = joinNonEmpty(when, "an update once it has stood for "+roundDuration(h.Debounce))
	}
	return when
}

func describeRetries(h *handle.Handler) string {
	switch {
	case h.Retries < 0:
		return "once"
	case h.Retries > 0:
		return fmt.Sprintf("a failed call up to %d times more", h.Retries)
	case h.RetryTimeout > 0:
		return "a failed call again for " + roundDuration(h.RetryTimeout)
	}
	return ""
}

// describeWrite say what else may be written.
func describeWrite(w *handle.WritePermission) string {
	var verbs []string
	for _, one := range []struct {
		may  bool
		verb string
	}{{w.Apply, "apply"}, {w.Delete, "delete"}, {w.Evict, "evict"}} {
		if one.may {
			verbs = append(verbs, one.verb)
		}
	}
	return "May " + joinAnd(verbs) + " " + joinNonEmpty(w.Resource.Kind+" objects", prefixed("with labels ", w.Labels), prefixed("in namespace ", w.Namespace)) + "."
}

// describeWebhook say what is asked before objects are stored, and what for.
func describeWebhook(w *admission.Webhook) string {
	var rules []string
	for _, rule := range w.Rules {
		rules = append(rules, describeRule(&rule))
	}
	what := "refuse"
	if w.Mutates {
		what = "change or refuse"
	}
	words := "Review " + w.Name + " may " + what + ": " + strings.Join(rules, "; ")
	if w.Ignore {
		return words + ". Without a verdict, they are stored."
	}
	return words + ". Without a verdict, they are refused."
}

func describeRule(r *admission.Rule) string {
	var operations []string
	for _, operation := range r.Operations {
		operations = append(operations, strings.ToLower(string(operation)))
	}
	where := object.Resource{Group: r.Group, Version: r.Version}
	return joinAnd(operations) + " of " + joinAnd(r.Resources) + " (" + where.APIVersion() + ")"
}

// roundDuration is a duration without zeros at its end: "1h", not "1h0m0s".
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
