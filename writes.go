package setpoint

import (
	"encoding/json"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/setpoint-dev/setpoint/hook"
)

// ApplyOption configures Call.Apply.
type ApplyOption interface{ applyTo(*applySettings) }

type applyOption func(*applySettings)

func (o applyOption) applyTo(a *applySettings) { o(a) }

type applySettings struct{ unowned, copyLabels bool }

// Unowned applies an object without an owner reference: it is not deleted with the
// handled object, and Setpoint does not watch it.
func Unowned() ApplyOption { return applyOption(func(a *applySettings) { a.unowned = true }) }

// CopyLabels adds the labels of the handled object that the object does not have.
func CopyLabels() ApplyOption { return applyOption(func(a *applySettings) { a.copyLabels = true }) }

// Apply creates or updates an object by server-side apply. Fields of an earlier Apply
// that this one omits are removed. The handled object owns it, unless Unowned is set.
//
// The kind must be declared by Owns or Applies. The default namespace and name are those
// of the handled object. With generateName the object gets a generated name that is
// stable across calls.
func (c *Call[T]) Apply(o any, options ...ApplyOption) {
	var opts applySettings
	for _, option := range options {
		option.applyTo(&opts)
	}
	if data := c.marshalObject("Apply", o, c.controller.applies, opts); data != nil {
		c.response.Apply = append(c.response.Apply, hook.AppliedObject{Object: data, Unowned: opts.unowned})
	}
}

// Delete deletes an object by its kind and name, in its namespace or that of the handled
// object. A missing object is not an error. The kind must be declared by Owns, for
// objects that the handled object owns, or by Deletes.
func (c *Call[T]) Delete(o any) { c.delete("Delete", o, hook.Deletion{}) }

// DeleteAll deletes all objects of a kind that match a label selector, in the namespace
// of obj or that of the handled object. An empty selector is an error.
func (c *Call[T]) DeleteAll(obj any, selector string) {
	c.deleteAll("DeleteAll", obj, hook.Deletion{Selector: selector})
}

// Evict evicts a pod. If a PodDisruptionBudget prevents it, Setpoint retries. Evicts must
// declare it, whether or not the object owns the pod.
func (c *Call[T]) Evict(pod *corev1.Pod) { c.delete("Evict", pod, hook.Deletion{Evict: true}) }

// EvictAll evicts the pods that match a label selector in the namespace of the handled
// object.
func (c *Call[T]) EvictAll(selector string) {
	c.deleteAll("EvictAll", &corev1.Pod{}, hook.Deletion{Selector: selector, Evict: true})
}

func (c *Call[T]) delete(verb string, o any, d hook.Deletion) {
	named, err := identify(o)
	if err == nil && named.Name == "" {
		err = errors.New("the object has no name")
	}
	if err != nil {
		c.fail("%s: %w", verb, err)
		return
	}
	d.Name = named.Name
	c.addDeletion(verb, o, d)
}

func (c *Call[T]) deleteAll(verb string, obj any, d hook.Deletion) {
	selector, err := labels.Parse(d.Selector)
	if err == nil && selector.Empty() {
		err = errors.New("the selector is empty and would select all objects")
	}
	if err != nil {
		c.fail("%s(%q): %w", verb, d.Selector, err)
		return
	}
	c.addDeletion(verb, obj, d)
}

func (c *Call[T]) addDeletion(verb string, o any, d hook.Deletion) {
	k, err := c.deletable(verb, o, d)
	if err != nil {
		c.fail("%w", err)
		return
	}
	d.APIVersion, d.Kind = k.apiVersion, k.kind
	if named, err := identify(o); err == nil {
		d.Namespace = named.Namespace
	}
	c.response.Delete = append(c.response.Delete, d)
}

// deletable returns the kind of an object that may be deleted or evicted.
func (c *Call[T]) deletable(verb string, o any, d hook.Deletion) (kind, error) {
	if !d.Evict {
		return c.checkDeclared(o, verb, c.controller.deletes)
	}
	if !c.controller.evicts {
		return kind{}, fmt.Errorf("%s: declare it with Evicts", verb)
	}
	return pods(), nil
}

// identify returns the metadata of an object.
func identify(o any) (objectMeta, error) {
	if typed, ok := o.(metav1.Object); ok && !isNil(o) {
		return metaOf(typed), nil
	}
	data, err := json.Marshal(o)
	if err != nil {
		return objectMeta{}, err
	}
	return readMeta(data)
}
