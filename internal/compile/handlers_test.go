package compile

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/internal/controller/trigger"
	"github.com/setpoint-dev/setpoint/internal/must"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// describeHandlers prints a controller with handlers.
func describeHandlers(c *Compiled) string {
	var text strings.Builder
	line := lineOf(&text)
	for _, p := range c.Handlers {
		line("handled", p.Resource)
		line("labels", p.Labels)
		line("fields", p.Fields)
		line("matches", p.Matches != nil)
		line("namespaces", p.Namespaces)
		for _, owned := range p.Owns {
			line("owns", owned)
		}
		for _, w := range p.Writes {
			line(map[bool]string{true: "may apply", false: "may delete"}[w.Apply], strings.TrimSpace(fmt.Sprint(w.Resource, " ", w.Namespace, " ", w.Labels)))
		}
		line("name", p.Name)
		line("record", p.Record.Annotation)
		if p.Record.StatusKey != "" {
			line("in the status", p.Record.StatusKey)
		}
		if p.Conditions {
			line("conditions", p.Conditions)
		}
		line("finalizer", p.Finalizer)
		line("replaces", p.ReplacedFinalizers)
		if p.ReplacedAnnotation != "" {
			line("replaces annotation", p.ReplacedAnnotation)
		}
		line("manager", p.Manager)
		line("workers", p.Workers)
		for _, h := range p.Handlers {
			line("handler", describeHandler(h))
		}
	}
	describeRest(line, c)
	return text.String()
}

func describeHandler(h trigger.Handler) string {
	text := fmt.Sprint(h.Name, " on ", h.On)
	say := func(name string, value any) {
		if !slices.Contains([]string{"[]", "0s", "0", "false"}, fmt.Sprint(value)) {
			text += fmt.Sprint(", ", name, " ", value)
		}
	}
	say("of", h.Fields)
	say("conditional", h.Conditional)
	say("limited", h.When != nil)
	say("by an expression", h.Expression != nil)
	say("every", h.Every)
	if h.FromFirstSeen {
		text += fmt.Sprint(", initial delay ", h.InitialDelay)
	}
	say("sharp", h.Sharp)
	say("remote daemon", h.Daemon != nil)
	say("stop timeout", h.StopTimeout)
	if h.Schedule != nil {
		say("first after 2026-01-01", h.Schedule.Next(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)).UTC().Format(time.RFC3339))
	}
	say("debounce", h.Debounce)
	say("idle", h.Idle)
	say("jitter", h.Jitter)
	say("retries", h.Retries)
	say("retry timeout", h.RetryTimeout)
	say("backoff", fmt.Sprint(h.Backoff, " to ", h.MaxBackoff))
	say("optional", h.Optional)
	say("keeps previous state", h.KeepPreviousState)
	return text
}

func TestMatchingAnnotations(t *testing.T) {
	o := must.Get(object.Parse([]byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","annotations":{"x.y/match":"app=frontend, tier"}}}`))).In(t)
	plain := must.Get(object.Parse([]byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}}`))).In(t)
	_, _, c, err := compileText(t, []byte(`
apiVersion: setpoint.dev/v1alpha1
kind: HandlerController
metadata: {name: a}
spec:
  resource: {apiVersion: v1, resource: configmaps, annotationSelector: {matchAnnotations: {x.y/match: "app=frontend, tier"}}}
  handlers: [{name: a, reasons: [Create], webhook: {url: "http://hook.example/"}}]
`))
	must.Succeed(t, err)
	defer c.Release()
	p := c.Handlers[0]
	if !p.Matches(o) || p.Matches(plain) {
		t.Errorf("matches %v, without annotations %v", p.Matches(o), p.Matches(plain))
	}
}
