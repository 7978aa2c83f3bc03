package admission

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/setpoint-dev/setpoint/internal/object"
)

// desiredConfiguration is the desired state of a configuration.
type desiredConfiguration struct {
	configurationKey

	meta metav1.ObjectMeta
	// json is the whole configuration, and webhooks its field of this name, in the form
	// of normalize.
	json, webhooks []byte
	normalize      func(webhooks []byte) ([]byte, error)
}

func (r Registration) desiredConfigurations(p *Program, bundle []byte) ([]desiredConfiguration, error) {
	mutating, validating := r.configurations(p, bundle)
	var all []desiredConfiguration
	var err error
	if mutating != nil {
		w := desiredConfiguration{configurationKey: configurationKey{mutatingResource, mutating.Name}, meta: mutating.ObjectMeta, normalize: normalizeWebhooks[admissionv1.MutatingWebhook]}
		all, err = w.appendTo(all, mutating, mutating.Webhooks)
	}
	if validating != nil && err == nil {
		w := desiredConfiguration{configurationKey: configurationKey{validatingResource, validating.Name}, meta: validating.ObjectMeta, normalize: normalizeWebhooks[admissionv1.ValidatingWebhook]}
		all, err = w.appendTo(all, validating, validating.Webhooks)
	}
	return all, err
}

// appendTo encodes the configuration and appends it.
func (w desiredConfiguration) appendTo(all []desiredConfiguration, whole, webhooks any) ([]desiredConfiguration, error) {
	var err error
	if w.json, err = json.Marshal(whole); err != nil {
		return all, fmt.Errorf("write %s: %w", w.configurationKey, err)
	}
	if w.webhooks, err = json.Marshal(webhooks); err != nil {
		return all, fmt.Errorf("write %s: %w", w.configurationKey, err)
	}
	return append(all, w), nil
}

// normalizeWebhooks encodes stored webhooks like ours: in the same order and without
// empty fields.
func normalizeWebhooks[W any](webhooks []byte) ([]byte, error) {
	var all []W
	if err := json.Unmarshal(webhooks, &all); err != nil {
		return nil, err
	}
	return json.Marshal(all)
}

// matches reports whether the stored configuration is as desired. It ignores labels and
// annotations of other clients.
func (w desiredConfiguration) matches(o *object.Object) bool {
	webhooks, err := w.normalize(orNull(o.Field("webhooks")))
	if err != nil || !bytes.Equal(webhooks, w.webhooks) {
		return false
	}
	var meta metav1.ObjectMeta
	if err := json.Unmarshal(orNull(o.Field("metadata")), &meta); err != nil {
		return false
	}
	return containsAll(meta.Labels, w.meta.Labels) && containsAll(meta.Annotations, w.meta.Annotations) &&
		meta.Annotations[leaseAnnotation] == w.meta.Annotations[leaseAnnotation] &&
		equality.Semantic.DeepEqual(meta.OwnerReferences, w.meta.OwnerReferences)
}

func orNull(field []byte) []byte {
	if field == nil {
		return []byte("null")
	}
	return field
}

func containsAll(all, some map[string]string) bool {
	for name, value := range some {
		if all[name] != value {
			return false
		}
	}
	return true
}

// overlay sets the desired fields in the stored configuration, and keeps its resource
// version, so that a concurrent change is a conflict.
func (w desiredConfiguration) overlay(o *object.Object) ([]byte, error) {
	var owners []byte // With none, the field goes.
	if len(w.meta.OwnerReferences) > 0 {
		var err error
		if owners, err = json.Marshal(w.meta.OwnerReferences); err != nil {
			return nil, err
		}
	}
	edits := []object.Edit{
		{Path: []string{"webhooks"}, Value: w.webhooks},
		{Path: []string{"metadata", "ownerReferences"}, Value: owners},
		{Path: []string{"metadata", "annotations", leaseAnnotation}}, // Goes, unless it is wanted.
	}
	for field, values := range map[string]map[string]string{"labels": w.meta.Labels, "annotations": w.meta.Annotations} {
		for _, name := range slices.Sorted(maps.Keys(values)) {
			value, err := json.Marshal(values[name])
			if err != nil {
				return nil, err
			}
			edits = append(edits, object.Edit{Path: []string{"metadata", field, name}, Value: value})
		}
	}
	overlaid, err := o.Edited(edits...)
	if err != nil {
		return nil, err
	}
	return overlaid.JSON(), nil
}

// remove deletes an object with its UID as precondition. A missing object is not an
// error.
func remove(ctx context.Context, client rest.Interface, resource object.Resource, o *object.Object) error {
	body, err := deleteOptions(o)
	if err != nil {
		return err
	}
	err = client.Delete().AbsPath(resource.Path(o.Namespace(), o.Name())).SetHeader("Content-Type", "application/json").
		SetHeader("Accept", "application/json").Body(body).Do(ctx).Error()
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}

// Unregister removes all configurations of a group, for a program that no longer runs.
func Unregister(ctx context.Context, client rest.Interface, group string) error {
	for _, resource := range []object.Resource{mutatingResource, validatingResource} {
		result := client.Get().AbsPath(resource.Path("", "")).Param("labelSelector", groupLabel+"="+group).
			SetHeader("Accept", "application/json").Do(ctx)
		if err := result.Error(); err != nil {
			return fmt.Errorf("list %s: %w", resource.Plural, err)
		}
		raw, err := result.Raw()
		if err != nil {
			return fmt.Errorf("list %s: %w", resource.Plural, err)
		}
		if err := removeAll(ctx, client, resource, raw); err != nil {
			return err
		}
	}
	return nil
}

func removeAll(ctx context.Context, client rest.Interface, resource object.Resource, listed []byte) error {
	var list struct{ Items []json.RawMessage }
	if err := json.Unmarshal(listed, &list); err != nil {
		return fmt.Errorf("list %s: %w", resource.Plural, err)
	}
	for _, item := range list.Items {
		o, err := object.ParseAs(item, resource.APIVersion(), resource.Kind)
		if err != nil {
			return fmt.Errorf("list %s: %w", resource.Plural, err)
		}
		if err := remove(ctx, client, resource, o); err != nil {
			return wrapError("delete", configurationKey{resource, o.Name()}, err)
		}
	}
	return nil
}
