package server

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/admission"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// checkPlausible refuses a review that no API server sends: it is contradictory, or does
// not match the registration of the webhook. It does not prove that the review is
// genuine; the path and client certificate do.
func checkPlausible(w *admission.Webhook, r *hook.ReviewRequest) error {
	if err := checkRules(w, r); err != nil {
		return newHTTPError(http.StatusBadRequest, "the review does not match the webhook: %w", err)
	}
	now, old, err := reviewedObjects(r)
	if err != nil {
		return newHTTPError(http.StatusBadRequest, "the review does not match the webhook: %w", err)
	}
	for _, o := range []*object.Object{now, old} {
		if err := checkObject(r, o); err != nil {
			return newHTTPError(http.StatusBadRequest, "the review is contradictory: %w", err)
		}
	}
	if now != nil && old != nil && now.UID() != "" && old.UID() != "" && now.UID() != old.UID() {
		return newHTTPError(http.StatusBadRequest, "the review is contradictory: the UID of the object is %q, that of the old object %q",
			now.UID(), old.UID())
	}
	return checkLabels(w, now, old)
}

// checkRules checks a review against the rules and namespaces of the registration.
func checkRules(w *admission.Webhook, r *hook.ReviewRequest) error {
	if len(w.Rules) > 0 && !slices.ContainsFunc(w.Rules, func(rule admission.Rule) bool { return ruleMatches(rule, r) }) {
		return fmt.Errorf("no rule of %s matches %s of %s", w.Name, r.Operation, strings.TrimSuffix(r.Resource+"/"+r.Subresource, "/"))
	}
	if slices.Contains(w.ExemptNamespaces, r.Namespace) {
		return fmt.Errorf("%s does not review the namespace %s", w.Name, r.Namespace)
	}
	return nil
}

// ruleMatches reports whether a rule matches a change, like the API server.
func ruleMatches(rule admission.Rule, r *hook.ReviewRequest) bool {
	if !slices.Contains(rule.Operations, r.Operation) && !slices.Contains(rule.Operations, "*") {
		return false
	}
	// The kind of a part may be one of another group, such as Scale.
	if r.Subresource == "" && rule.Group != "*" && rule.Version != "*" &&
		r.APIVersion != (schema.GroupVersion{Group: rule.Group, Version: rule.Version}).String() {
		return false
	}
	return slices.ContainsFunc(rule.Resources, func(name string) bool {
		plural, part, _ := strings.Cut(name, "/")
		return (plural == "*" || plural == r.Resource) && (part == "*" || part == r.Subresource)
	})
}

func reviewedObjects(r *hook.ReviewRequest) (now, old *object.Object, err error) {
	for _, one := range []struct {
		data []byte
		into **object.Object
	}{{r.Object, &now}, {r.OldObject, &old}} {
		if one.data == nil {
			continue
		}
		if *one.into, err = object.Parse(one.data); err != nil {
			return nil, nil, err
		}
	}
	return now, old, nil
}

// checkObject compares an object with the review. Objects of subresources, such as the
// options of exec, may have no name.
func checkObject(r *hook.ReviewRequest, o *object.Object) error {
	if o == nil || r.Subresource != "" {
		return nil
	}
	for _, one := range []struct{ what, said, is string }{
		{"apiVersion", r.APIVersion, o.APIVersion()},
		{"kind", r.Kind, o.Kind()},
		{"name", r.Name, o.Name()},
		{"namespace", r.Namespace, o.Namespace()},
	} {
		if one.said != "" && one.is != "" && one.said != one.is {
			return fmt.Errorf("the %s of the object is %q, that of the review %q", one.what, one.is, one.said)
		}
	}
	return nil
}

// checkLabels checks that the new or the old object matches the label selector.
func checkLabels(w *admission.Webhook, now, old *object.Object) error {
	if w.Objects == nil {
		return nil
	}
	selector, err := metav1.LabelSelectorAsSelector(w.Objects)
	if err != nil {
		return nil //nolint:nilerr // The API server does not take such a selector.
	}
	for _, o := range []*object.Object{now, old} {
		if o != nil && selector.Matches(o.Labels()) {
			return nil
		}
	}
	return newHTTPError(http.StatusBadRequest, "the review does not match the webhook: %s does not review objects with these labels",
		w.Name)
}

// responseEvents returns the events of a response, each with its object. Objects that do
// not and will not exist have none.
func responseEvents(r *hook.ReviewRequest, v *hook.ReviewResponse) []hook.ObjectEvent {
	if r.DryRun {
		return nil
	}
	var all []hook.ObjectEvent
	for _, event := range v.Events {
		if event.Kind == "" {
			event.APIVersion, event.Kind, event.Namespace, event.Name = r.APIVersion, r.Kind, r.Namespace, r.Name
		}
		if !concernsReviewed(r, event) {
			all = append(all, event)
			continue
		}
		neverThere := r.Operation == hook.OperationCreate && v.Denial != nil
		if event.Name == "" || neverThere {
			continue
		}
		if event.UID == "" {
			event.UID = uidOf(r)
		}
		all = append(all, event)
	}
	return all
}

// concernsReviewed reports whether an event is on the reviewed object.
func concernsReviewed(r *hook.ReviewRequest, e hook.ObjectEvent) bool {
	return e.APIVersion == r.APIVersion && e.Kind == r.Kind && e.Namespace == r.Namespace && e.Name == r.Name
}

// uidOf returns the UID of the stored object.
func uidOf(r *hook.ReviewRequest) string {
	if r.OldObject == nil {
		return ""
	}
	old, err := object.Parse(r.OldObject)
	if err != nil {
		return ""
	}
	return old.UID()
}
