package testcase

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/admission"
	"github.com/setpoint-dev/setpoint/internal/controller/composite"
	"github.com/setpoint-dev/setpoint/internal/controller/handler"
	"github.com/setpoint-dev/setpoint/internal/controller/trigger"
	"github.com/setpoint-dev/setpoint/internal/difference"
	"github.com/setpoint-dev/setpoint/internal/explore/apiserver/kinds"
	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/workspace"
)

// target is the hook of a controller. One of compose, handler and webhook is set.
type target struct {
	controller *workspace.Controller
	kinds      *workspace.Kinds
	schemas    *kinds.CRDs
	// hook is as in a Case.
	hook    string
	compose *composite.Program
	handle  *handler.Program
	handler *trigger.Handler
	webhook *admission.Webhook
}

// The hooks of composites and decorators.
const (
	hookSync      = "sync"
	hookFinalize  = "finalize"
	hookCustomize = "customize"
)

// resolve finds what a case calls.
func (c *Case) resolve(w *workspace.Workspace) error {
	var found []target
	for _, controller := range w.Controllers {
		if c.spec.Controller == "" || c.names(controller) {
			found = append(found, c.targetsOf(controller, w.Kinds)...)
		}
	}
	if fitting := c.fitting(found); len(fitting) > 0 {
		found = fitting
	}
	switch {
	case len(found) == 1:
		c.target = found[0]
		return c.checkFields()
	case len(found) > 1:
		return c.ambiguous(found)
	case len(w.Controllers) == 0:
		return errors.New("the files have no controller")
	case c.spec.Controller != "" && !slices.ContainsFunc(w.Controllers, c.names):
		return fmt.Errorf("controller: %q is not in the files, which have %s", c.spec.Controller, names(w.Controllers))
	}
	return c.noTarget(w)
}

// fitting returns the hooks whose requests have all fields that the case gives, and its reason.
func (c *Case) fitting(all []target) []target {
	reason := hook.Reason(c.spec.Request.Reason)
	return slices.DeleteFunc(slices.Clone(all), func(t target) bool {
		if t.handler != nil && reason != "" && !slices.Contains(possibleReasons(t.handler), reason) {
			return true
		}
		known, _ := t.known()
		return slices.ContainsFunc(lists.Keys(c.given("request")), func(field string) bool { return !slices.Contains(known, field) })
	})
}

func (c *Case) names(of *workspace.Controller) bool {
	return c.spec.Controller == of.Object.Name() || strings.EqualFold(c.spec.Controller, of.String())
}

// targetsOf returns the hooks of a controller that the case can mean.
func (c *Case) targetsOf(of *workspace.Controller, kinds *workspace.Kinds) []target {
	var all []target
	subject := c.subject()
	for i := range of.Programs {
		p := &of.Programs[i]
		if hook := c.hookOf(p); hook != "" && subject.is(p.Parent) {
			all = append(all, target{controller: of, kinds: kinds, hook: hook, compose: p})
		}
	}
	for i := range of.Handlers {
		p := &of.Handlers[i]
		for j := range p.Handlers {
			if h := &p.Handlers[j]; (c.means(h.Name) || c.means(h.DisplayName)) && subject.is(p.Resource) {
				all = append(all, target{controller: of, kinds: kinds, hook: cmp.Or(h.DisplayName, h.Name), handle: p, handler: h})
			}
		}
	}
	if of.Admission != nil {
		for i := range of.Admission.Webhooks {
			if h := &of.Admission.Webhooks[i]; c.means(h.Name) && subject.isReviewed(h, kinds) {
				all = append(all, target{controller: of, kinds: kinds, hook: h.Name, webhook: h})
			}
		}
	}
	return perKind(all)
}

// perKind drops the programs of further namespaces, which call the same hooks.
func perKind(all []target) []target {
	return slices.CompactFunc(all, func(a, b target) bool {
		return a.compose != nil && b.compose != nil && a.compose.Parent == b.compose.Parent ||
			a.handle != nil && b.handle != nil && a.handle.Resource == b.handle.Resource && a.hook == b.hook
	})
}

func (c *Case) means(hook string) bool { return c.spec.Hook == "" || c.spec.Hook == hook }

// hookOf returns the hook of a composite or decorator that the case means; empty if it has none.
func (c *Case) hookOf(p *composite.Program) string {
	given := c.spec.Request.Finalizing
	finalizing := given != nil && *given || given == nil && c.spec.Hook == hookFinalize
	switch {
	case c.means(hookFinalize) && finalizing && p.Finalize != nil:
		return hookFinalize
	case c.spec.Hook == hookCustomize && p.Customize != nil:
		return hookCustomize
	case c.means(hookSync) && !finalizing && p.Sync != nil:
		return hookSync
	}
	return ""
}

// subject is the kind of the object that a request is about, as far as the case says it.
type subject struct{ apiVersion, kind string }

func (c *Case) subject() subject {
	for _, raw := range [][]byte{c.spec.Request.Parent, c.spec.Request.Object} {
		if o, err := object.Decode(raw); err == nil {
			apiVersion, _ := o["apiVersion"].(string)
			kind, _ := o["kind"].(string)
			return subject{apiVersion, kind}
		}
	}
	return subject{}
}

func (s subject) is(resource object.Resource) bool {
	return (s.kind == "" || s.kind == resource.Kind || resource.Kind == resource.Plural) &&
		(s.apiVersion == "" || object.GroupOf(s.apiVersion) == resource.Group)
}

func (s subject) isReviewed(by *admission.Webhook, kinds *workspace.Kinds) bool {
	if s.kind == "" || s.apiVersion == "" {
		return true
	}
	resource, err := kinds.ResolveKind(context.Background(), s.apiVersion, s.kind)
	return err == nil && slices.ContainsFunc(by.Rules, func(r admission.Rule) bool {
		return (r.Group == resource.Group || r.Group == "*") && slices.ContainsFunc(r.Resources, func(name string) bool {
			plural, _, _ := strings.Cut(name, "/")
			return plural == resource.Plural || plural == "*"
		})
	})
}

// ambiguous says how to choose one of several hooks.
func (c *Case) ambiguous(found []target) error {
	var controllers []*workspace.Controller
	var hooks []string
	for _, t := range found {
		controllers = lists.Union(controllers, []*workspace.Controller{t.controller})
		hooks = lists.Union(hooks, []string{t.hook})
	}
	slices.Sort(hooks)
	switch {
	case len(controllers) > 1:
		return fmt.Errorf("controller: required, one of %s", names(controllers))
	case len(hooks) > 1:
		return fmt.Errorf("hook: required, one of %s", strings.Join(hooks, ", "))
	}
	return fmt.Errorf("request: %s has several kinds of objects; give the object an apiVersion and a kind", controllers[0])
}

// noTarget says why no controller has the hook.
func (c *Case) noTarget(w *workspace.Workspace) error {
	if finalizing := c.spec.Request.Finalizing; finalizing != nil && *finalizing != (c.spec.Hook == hookFinalize) &&
		(c.spec.Hook == hookSync || c.spec.Hook == hookFinalize) {
		return fmt.Errorf("request.finalizing: %v contradicts hook: %s; leave it out", *finalizing, c.spec.Hook)
	}
	if c.spec.Hook != "" {
		return fmt.Errorf("hook: no controller of the files has a hook %q for the object of the request; they have %s",
			c.spec.Hook, hooksOf(w))
	}
	s := c.subject()
	return fmt.Errorf("request: no controller of the files has a hook for %s of %s", s.kind, s.apiVersion)
}

// hooksOf lists the hooks of controllers.
func hooksOf(w *workspace.Workspace) string {
	var all []string
	for _, of := range []string{"", hookFinalize, hookCustomize} {
		c := &Case{spec: spec{Hook: of}}
		for _, controller := range w.Controllers {
			all = append(all, lists.Map(c.targetsOf(controller, w.Kinds), func(t target) string { return t.hook })...)
		}
	}
	slices.Sort(all)
	return strings.Join(slices.Compact(all), ", ")
}

func names(all []*workspace.Controller) string {
	texts := lists.Map(all, (*workspace.Controller).String)
	return strings.Join(texts, ", ")
}

// resource is the kind of the object that the hook is about; the zero value for reviews, which have several.
func (t *target) resource() object.Resource {
	switch {
	case t.compose != nil:
		return t.compose.Parent
	case t.handle != nil:
		return t.handle.Resource
	}
	return object.Resource{}
}

func (t *target) isDecorator() bool {
	return t.compose != nil && strings.HasPrefix(t.controller.Object.Kind(), "Decorator")
}

// parentField is the field of the object that requests of the target are about.
func (t *target) parentField() string {
	if t.compose == nil || t.isDecorator() {
		return "object"
	}
	return "parent"
}

// childrenField is the field of children in requests and responses of the target.
func (t *target) childrenField() string {
	if t.isDecorator() {
		return "attachments"
	}
	return "children"
}

// desiredField is the field that holds all desired children; empty if there is none.
func (t *target) desiredField() string {
	if t.compose == nil || t.hook == hookCustomize {
		return ""
	}
	return t.childrenField()
}

// The fields of responses that cases treat differently.
const (
	fieldError = difference.FieldError
	// fieldCalled is false if the condition of a handler is.
	fieldCalled = "called"
	// fieldRetryAfter is when a handler is called again.
	fieldRetryAfter = "retryAfterSeconds"
	// fieldLogicVersion names the version of the code.
	fieldLogicVersion = difference.FieldLogicVersion
	// fieldWrites are what Setpoint would write of the children, such as "create ConfigMap example".
	fieldWrites = "writes"
)

// known are the fields that the request and the response of the target may have.
func (t *target) known() (request, response []string) {
	switch {
	case t.handle != nil:
		return strings.Fields("controller object reason previousState owned attempt firstAttempt progress deleted event daemon dryRun"),
			strings.Fields("patch status apply delete events conditions message retryAfterSeconds progress applicable sideEffects " +
				"finished " + fieldCalled)
	case t.webhook != nil:
		return strings.Fields("controller uid operation resource subresource object oldObject user dryRun"),
			strings.Fields("allowed message reason code object patch jsonPatch warnings auditAnnotations events")
	case t.hook == hookCustomize:
		return strings.Fields("controller parent object"), []string{"relatedResources"}
	case t.isDecorator():
		return strings.Fields("controller object attachments related finalizing"),
			strings.Fields("attachments status resyncAfterSeconds finalized labels annotations events conditions message " +
				fieldLogicVersion + " " + fieldWrites)
	}
	return strings.Fields("controller parent children related finalizing"),
		strings.Fields("children status resyncAfterSeconds finalized events conditions message " + fieldLogicVersion + " " + fieldWrites)
}

// given returns the fields that the case has in request or expect.
func (c *Case) given(part string) map[string]any {
	given, _ := c.Document.Object.Object[part].(map[string]any)
	return given
}

// checkFields returns an error for fields that the hook of the case does not have.
func (c *Case) checkFields() error {
	var problems []error
	request, response := c.target.known()
	for _, part := range []struct {
		name  string
		known []string
	}{{"request", request}, {"expect", append(response, fieldError)}} {
		for _, field := range slices.Sorted(maps.Keys(c.given(part.name))) {
			if !slices.Contains(part.known, field) {
				problems = append(problems, fmt.Errorf("%s.%s: unknown field of a case of %s %s, which has %s",
					part.name, field, c.target.controller, c.target.hook, strings.Join(part.known, ", ")))
			}
		}
	}
	return errors.Join(problems...)
}

// possibleReasons are those for which a handler is called.
func possibleReasons(h *trigger.Handler) []hook.Reason {
	if h.Daemon != nil {
		return []hook.Reason{hook.ReasonDaemon}
	}
	all := slices.Clone(h.On)
	if h.Every > 0 || h.Schedule != nil {
		all = append(all, hook.ReasonTimer)
	}
	return all
}
