// Package permit decides what responses of handlers may write.
package permit

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/controller/trigger"
	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// Set is what a program may write.
type Set struct {
	Writes []Write
	// Namespaces limits them; empty for all namespaces.
	Namespaces []string
}

// Write permits responses to write objects of one kind.
type Write struct {
	Resource object.Resource
	// Apply, Delete and Evict are the permitted verbs; only pods can be evicted.
	Apply, Delete, Evict bool
	// Namespace limits the permission; empty for all namespaces.
	Namespace string
	// Labels is a selector for the objects, by their desired labels for an apply and their
	// current ones for a deletion; "" selects all. A deletion by selector must match both.
	Labels string
	// Owned permits to delete only what the handled object controls.
	Owned bool
}

// Owned permits a program to apply objects of a kind, and to delete those that the handled object controls.
func Owned(resource object.Resource) Write {
	return Write{Resource: resource, Apply: true, Delete: true, Evict: true, Owned: true}
}

// CheckResponse returns an error if a response is invalid or exceeds the program's
// permissions. Setpoint applies no part of such a response.
func (s *Set) CheckResponse(n *hook.HandlerRequest, a *hook.HandlerResponse) error {
	for _, part := range []struct {
		path string
		text json.RawMessage
	}{{"patch", a.Patch}, {"status", a.Status}, {"progress", a.Progress}} {
		var members map[string]json.RawMessage
		if part.text != nil && (json.Unmarshal(part.text, &members) != nil || members == nil) {
			return malformed(part.path, "must be a JSON object")
		}
	}
	for i, one := range a.Apply {
		if err := s.checkApplied(n, one); err != nil {
			return errorAt(fmt.Sprintf("apply[%d]", i), err)
		}
	}
	for i, one := range a.Delete {
		if err := s.checkDeletion(n, one); err != nil {
			return errorAt(fmt.Sprintf("delete[%d]", i), err)
		}
	}
	return nil
}

// CheckResponse returns an error if a response has fields that make no sense for the request.
func CheckResponse(h *trigger.Handler, n *hook.HandlerRequest, a *hook.HandlerResponse) error {
	repeated := n.Reason != hook.ReasonEvent && n.Reason != hook.ReasonDaemon && !n.Deleted
	switch {
	case a.NotApplicable && !h.Conditional:
		return malformed("applicable", "the handler is not conditional, so it is always applicable; set conditional of the handler")
	case n.Reason == hook.ReasonMatch && (&trigger.Response{Response: a}).Writes():
		return malformed("", "with the reason %s, a response has only applicable or an error", n.Reason)
	case a.Progress != nil && !repeated:
		return malformed("progress", "not allowed with the reason %s, whose calls are not repeated", n.Reason)
	case len(a.Progress) > hook.MaxProgress:
		return malformed("progress", "must not exceed %d bytes, has %d", hook.MaxProgress, len(a.Progress))
	case a.Finished && n.Reason != hook.ReasonDaemon:
		return malformed("finished", "only for the reason %s", hook.ReasonDaemon)
	case a.Err != nil && len(a.Apply)+len(a.Delete) > 0:
		return malformed("apply", "not allowed with an error")
	}
	return nil
}

func malformed(path, format string, args ...any) error {
	return &hook.MalformedError{Path: path, Err: fmt.Errorf(format, args...)}
}

func errorAt(path string, err error) error {
	if hook.IsTerminal(err) {
		return &hook.TerminalError{Err: fmt.Errorf("%s: %w", path, errors.Unwrap(err))}
	}
	return &hook.MalformedError{Path: path, Err: err}
}

func (s *Set) checkApplied(n *hook.HandlerRequest, a hook.AppliedObject) error {
	o, err := object.Parse(a.Object)
	if err != nil {
		return err
	}
	switch {
	case o.APIVersion() == "":
		return errors.New("apiVersion: required")
	case o.Kind() == "":
		return errors.New("kind: required")
	case o.Name() == "":
		return errors.New("metadata.name: required")
	}
	_, err = s.ResourceToApply(n.Namespace, o)
	return err
}

// ResourceToApply returns the kind of an object to apply, or an error if the program may not apply it.
func (s *Set) ResourceToApply(ownNamespace string, o *object.Object) (object.Resource, error) {
	all := s.of("apply", o.APIVersion(), o.Kind())
	for _, w := range all {
		if w.AllowsNamespace(NamespaceFor(w.Resource, ownNamespace, o.Namespace())) && w.matchesLabels(o) {
			return w.Resource, s.checkNamespace(w.Resource, ownNamespace, o.Namespace())
		}
	}
	return object.Resource{}, Undeclared("apply", len(all) > 0, o.APIVersion(), o.Kind())
}

func (s *Set) checkDeletion(n *hook.HandlerRequest, d hook.Deletion) error {
	switch _, err := labels.Parse(d.Selector); {
	case d.APIVersion == "" || d.Kind == "":
		return errors.New("apiVersion and kind: required")
	case (d.Name == "") == (d.Selector == ""):
		return errors.New("must have either a name or a selector")
	case err != nil:
		return fmt.Errorf("selector: %w", err)
	case d.Evict && (d.APIVersion != "v1" || d.Kind != "Pod"):
		return fmt.Errorf("evict: only pods can be evicted, not %s", d.Kind)
	}
	all := s.Deleting(d)
	for _, w := range all {
		if w.AllowsNamespace(NamespaceFor(w.Resource, n.Namespace, d.Namespace)) {
			return s.checkNamespace(w.Resource, n.Namespace, d.Namespace)
		}
	}
	return Undeclared(DeletionVerb(d), len(all) > 0, d.APIVersion, d.Kind)
}

// DeletionVerb returns the verb of a deletion.
func DeletionVerb(d hook.Deletion) string {
	if d.Evict {
		return "evict"
	}
	return "delete"
}

func (s *Set) of(verb, apiVersion, kind string) []Write {
	return lists.Filter(s.Writes, func(w Write) bool {
		permits := map[string]bool{"apply": w.Apply, "delete": w.Delete, "evict": w.Evict}
		return permits[verb] && MatchesKind(w.Resource, apiVersion, kind)
	})
}

// Deleting returns the permissions for the objects of a deletion.
func (s *Set) Deleting(d hook.Deletion) []Write { return s.of(DeletionVerb(d), d.APIVersion, d.Kind) }

// MatchesKind reports whether a resource is that of a kind.
func MatchesKind(resource object.Resource, apiVersion, kind string) bool {
	return resource.APIVersion() == apiVersion && resource.Kind == kind
}

// AllowsNamespace reports whether the permission includes a namespace.
func (w *Write) AllowsNamespace(namespace string) bool {
	return w.Namespace == "" || w.Namespace == namespace
}

func (w *Write) matchesLabels(o *object.Object) bool {
	selector, err := labels.Parse(w.Labels)
	return err == nil && selector.Matches(o.Labels())
}

// AllowsDeletion reports whether the permission to delete covers an object.
func (w *Write) AllowsDeletion(owner, o *object.Object) bool {
	return w.matchesLabels(o) && (!w.Owned || o.ControlledBy(owner.UID()))
}

// NamespaceFor returns the namespace of an object, which defaults to that of the handled one.
func NamespaceFor(resource object.Resource, ownNamespace, namespace string) string {
	switch {
	case !resource.Namespaced:
		return ""
	case namespace == "":
		return ownNamespace
	}
	return namespace
}

// checkNamespace returns an error if a namespaced object has no namespace, or one to which the program is not limited.
func (s *Set) checkNamespace(resource object.Resource, ownNamespace, namespace string) error {
	namespace = NamespaceFor(resource, ownNamespace, namespace)
	switch {
	case !resource.Namespaced:
		return nil
	case namespace == "":
		return errors.New("namespace: required, because the handled object is cluster-scoped")
	case len(s.Namespaces) > 0 && !slices.Contains(s.Namespaces, namespace):
		return &hook.TerminalError{Err: fmt.Errorf("namespace: %q is not one of the controller's namespaces, %s",
			namespace, strings.Join(s.Namespaces, ", "))}
	}
	return nil
}

// Undeclared returns the error of a response that exceeds what was declared.
func Undeclared(verb string, known bool, apiVersion, kind string) error {
	if known {
		return &hook.TerminalError{Err: fmt.Errorf("may not %s this %s: its namespace or labels are not among those that the controller "+
			"declares", verb, kind)}
	}
	return &hook.TerminalError{Err: fmt.Errorf("may not %s %s %s: the controller does not declare it; add the kind to those that it "+
		"owns or may %[1]s", verb, apiVersion, kind)}
}
