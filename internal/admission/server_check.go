package admission

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// checkPlausible refuses a review that no API server sends: one that contradicts itself, or
// that the registration of the webhook does not ask for. It is no proof that a change
// is being made, which the way of the review to us has to give.
func checkPlausible(w *Webhook, r *hook.ReviewRequest) error {
	if err := checkRules(w, r); err != nil {
		return newHTTPError(http.StatusBadRequest, "the API server does not send this review: %w", err)
	}
	now, old, err := reviewedObjects(r)
	if err != nil {
		return newHTTPError(http.StatusBadRequest, "the API server does not send this review: %w", err)
	}
	for _, o := range []*object.Object{now, old} {
		if err := checkObject(r, o); err != nil {
			return newHTTPError(http.StatusBadRequest, "the review contradicts itself: %w", err)
		}
	}
	if now != nil && old != nil && now.UID() != "" && old.UID() != "" && now.UID() != old.UID() {
		return newHTTPError(http.StatusBadRequest, "the review contradicts itself: the uid of the object is %q, that of the old one %q", now.UID(), old.UID())
	}
	return checkLabels(w, now, old)
}

// checkRules holds a review to the rules and namespaces of the registration.
func checkRules(w *Webhook, r *hook.ReviewRequest) error {
	if len(w.Rules) > 0 && !slices.ContainsFunc(w.Rules, func(rule Rule) bool { return rule.matches(r) }) {
		return fmt.Errorf("no rule of %s is about %s of %s", w.Name, r.Operation, strings.TrimSuffix(r.Resource+"/"+r.Subresource, "/"))
	}
	if slices.Contains(w.ExemptNamespaces, r.Namespace) {
		return fmt.Errorf("%s is not asked about the namespace %s", w.Name, r.Namespace)
	}
	return nil
}

// matches says whether the rule is about a change, as the API server sees it.
func (rule Rule) matches(r *hook.ReviewRequest) bool {
	if !slices.Contains(rule.Operations, r.Operation) && !slices.Contains(rule.Operations, "*") {
		return false
	}
	// The kind of a part may be one of another group, such as Scale.
	if r.Subresource == "" && rule.Group != "*" && rule.Version != "*" && r.APIVersion != joinAPIVersion(rule.Group, rule.Version) {
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

// checkObject compares an object with what is said of it. The object of a part, such as
// the options of an exec, need not have a name.
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
			return fmt.Errorf("the %s of the object is %q, and is said to be %q", one.what, one.is, one.said)
		}
	}
	return nil
}

// checkLabels holds a review to the labels of the registration, of which the new or the
// old object has to have those.
func checkLabels(w *Webhook, now, old *object.Object) error {
	if w.Objects == nil {
		return nil
	}
	selector, err := metav1.LabelSelectorAsSelector(w.Objects)
	if err != nil {
		return nil //nolint:nilerr // The API server does not take such a selector.
	}
	for _, o := range []*object.Object{now, old} {
		if o != nil && matches(selector, o) {
			return nil
		}
	}
	return newHTTPError(http.StatusBadRequest, "the API server does not send this review: %s is not asked about objects with these labels", w.Name)
}

func matches(selector labels.Selector, o *object.Object) bool { return selector.Matches(o.Labels()) }

// responseEvents are the events of a verdict, each at its object. An object that is not there, or
// will not be, has none.
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

// concernsReviewed says whether an event is at the object that is reviewed.
func concernsReviewed(r *hook.ReviewRequest, e hook.ObjectEvent) bool {
	return e.APIVersion == r.APIVersion && e.Kind == r.Kind && e.Namespace == r.Namespace && e.Name == r.Name
}

// uidOf is the uid of the object as it is stored: an event goes to that one, and to no
// later one of its name.
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
