package apply

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
)

// updateOrApply applies the desired fields, by an update if that has the same result.
func (w *Writer) updateOrApply(ctx context.Context, a plan.Action) Result {
	result := Result{Action: a}
	// In a dry run, the apply shows what the update would do.
	if a.Update != nil && !w.options.DryRun {
		var enough bool
		if enough, result.Err = w.updateInstead(ctx, &result); enough || result.Err != nil {
			return result
		}
	}
	result.Stored, result.Err = w.serverSideApply(ctx, a)
	return result
}

// updateInstead sends the update of an action in the place of its apply. It reports whether that was enough. It
// was not if the object has changed since it was read, if the server rejects the update, or if the manager does
// not own all desired fields alone: then the apply decides.
func (w *Writer) updateInstead(ctx context.Context, result *Result) (enough bool, err error) {
	a := result.Action
	request := w.writeRequest(w.client.Put(), a.Manager).AbsPath(pathOf(a)).
		Param("fieldValidation", metav1.FieldValidationStrict).Body(a.Update.JSON())
	body, err := w.doRequest(ctx, a.Resource, "update", request.SetHeader("Accept", "application/json"))
	switch {
	case isRejected(err), apierrors.IsConflict(err), apierrors.IsNotFound(err):
		return false, nil
	case err != nil:
		return false, err
	}
	all, shared, err := ownersOf(body, w.managerOr(a.Manager), a)
	if err != nil {
		return false, err
	}
	stored, err := w.parse(body, "", "")
	if err != nil {
		return false, err
	}
	if all && !shared {
		result.Stored = stored
		return true, nil
	}
	result.Updated, result.CoOwned = stored, shared
	return false, nil
}

// ownersOf reports whether a manager owns all fields that an action applies, and whether another one owns any.
func ownersOf(body []byte, manager string, a plan.Action) (all, shared bool, err error) {
	var live struct{ Metadata managedMetadata }
	if err := json.Unmarshal(body, &live); err != nil {
		return false, false, fmt.Errorf("read its managed fields: %w", err)
	}
	applied, err := object.Decode(a.After.JSON())
	if err != nil {
		return false, false, err
	}
	removeUnmanaged(applied)
	var mine fieldSet
	for _, e := range live.Metadata.ManagedFields {
		switch {
		case e.Manager == manager && e.Subresource == "":
			mine = union(mine, e.FieldsV1)
		case len(e.FieldsV1) > 0 && e.FieldsV1.ownsAnyOf(applied):
			shared = true
		}
	}
	return len(mine) > 0 && mine.ownsAllOf(applied), shared, nil
}

// removeUnmanaged removes the fields that no manager owns.
func removeUnmanaged(fields map[string]any) {
	delete(fields, "apiVersion")
	delete(fields, "kind")
	metadata, _ := fields["metadata"].(map[string]any)
	for _, name := range []string{"name", "namespace", "uid"} {
		delete(metadata, name)
	}
}

// ownsAllOf reports whether a manager owns all fields of a value. One without fields below is owned as one.
func (o fieldSet) ownsAllOf(applied any) bool {
	if len(o) == 0 {
		return true
	}
	switch value := applied.(type) {
	case map[string]any:
		for name, member := range value {
			if below, owned := o["f:"+name]; !owned || !below.ownsAllOf(member) {
				return false
			}
		}
	case []any:
		elements := o.elements()
		for _, item := range value {
			at := slices.IndexFunc(elements, func(e pathElement) bool { return e.matches(item) })
			if at < 0 || !elements[at].below.ownsAllOf(item) {
				return false
			}
		}
	}
	return true
}

// ownsAnyOf reports whether a manager owns a field of a value.
func (o fieldSet) ownsAnyOf(applied any) bool {
	switch value := applied.(type) {
	case map[string]any:
		for name, below := range o {
			member, given := value[strings.TrimPrefix(name, "f:")]
			if given && below.ownsAnyOf(member) {
				return true
			}
		}
	case []any:
		for _, element := range o.elements() {
			owned := func(item any) bool { return element.matches(item) && element.below.ownsAnyOf(item) }
			if slices.ContainsFunc(value, owned) {
				return true
			}
		}
	}
	return len(o) == 0
}
