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

// ApplyOption says how an object is applied.
type ApplyOption interface{ applyTo(*applySettings) }

type applyOption func(*applySettings)

func (o applyOption) applyTo(a *applySettings) { o(a) }

// applySettings is what options say of an object to apply.
type applySettings struct{ unowned, copyLabels bool }

// Unowned leaves an object without an owner reference: it stays when the handled
// object goes, and nobody watches it.
func Unowned() ApplyOption { return applyOption(func(a *applySettings) { a.unowned = true }) }

// CopyLabels gives an object the labels of the handled one, as far as it does not
// have them itself.
func CopyLabels() ApplyOption { return applyOption(func(a *applySettings) { a.copyLabels = true }) }

// Apply has an object created, or brought in line if it is there, by server-side
// apply: the fields that are set are as they are here, and those that an earlier
// Apply had set and this one does not are removed. The handled object owns it,
// unless Unowned: it goes with it.
//
// Its kind must be declared by Owns or Applies, and is known by its type as in
// For. Without a namespace it is in that of the handled object. Without a name it
// is named like the handled object; with a generateName it gets a name beginning
// so that stays the same however often the handler is called.
func (c *Call[T]) Apply(o any, options ...ApplyOption) {
	var opts applySettings
	for _, option := range options {
		option.applyTo(&opts)
	}
	if data := c.marshalObject("Apply", o, c.controller.applies, opts); data != nil {
		c.response.Apply = append(c.response.Apply, hook.AppliedObject{Object: data, Unowned: opts.unowned})
	}
}

// Delete has one object deleted: an object of its kind with its name, and its
// namespace unless it is the handled object's. One that is not there is fine. Its
// kind must be declared by Owns, for objects that the handled one owns, or by
// Deletes.
func (c *Call[T]) Delete(o any) { c.delete("Delete", o, hook.Deletion{}) }

// DeleteAll has all objects of a kind deleted that match a label selector, in the
// handled object's namespace or that of like, which stands for the kind. A
// selector that selects everything is refused.
func (c *Call[T]) DeleteAll(obj any, selector string) {
	c.deleteAll("DeleteAll", obj, hook.Deletion{Selector: selector})
}

// Evict has one pod evicted: deleted, unless a PodDisruptionBudget is against it;
// then it is asked for again until it is not. Evicts must declare it, whoever owns the
// pod.
func (c *Call[T]) Evict(pod *corev1.Pod) { c.delete("Evict", pod, hook.Deletion{Evict: true}) }

// EvictAll has the pods evicted that match a label selector, in the handled
// object's namespace.
func (c *Call[T]) EvictAll(selector string) {
	c.deleteAll("EvictAll", &corev1.Pod{}, hook.Deletion{Selector: selector, Evict: true})
}

func (c *Call[T]) delete(verb string, o any, d hook.Deletion) {
	named, err := identify(o)
	if err == nil && named.Metadata.Name == "" {
		err = errors.New("the object has no name")
	}
	if err != nil {
		c.fail("%s: %w", verb, err)
		return
	}
	d.Name = named.Metadata.Name
	c.addDeletion(verb, o, d)
}

func (c *Call[T]) deleteAll(verb string, obj any, d hook.Deletion) {
	selector, err := labels.Parse(d.Selector)
	if err == nil && selector.Empty() {
		err = errors.New("the selector is empty and would select everything")
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
		d.Namespace = named.Metadata.Namespace
	}
	c.response.Delete = append(c.response.Delete, d)
}

// deletable is the kind of an object that may be deleted, or evicted.
func (c *Call[T]) deletable(verb string, o any, d hook.Deletion) (kind, error) {
	if !d.Evict {
		return c.checkDeclared(o, verb, c.controller.deletes)
	}
	if !c.controller.evicts {
		return kind{}, fmt.Errorf("%s: is not declared: say Evicts", verb)
	}
	return pods(), nil
}

// identity is what an object is called.
type identity struct {
	Metadata struct{ Namespace, Name string }
}

func identify(o any) (identity, error) {
	var i identity
	if typed, ok := o.(metav1.Object); ok && !isNil(o) {
		i.Metadata.Namespace, i.Metadata.Name = typed.GetNamespace(), typed.GetName()
		return i, nil
	}
	data, err := json.Marshal(o)
	if err == nil {
		err = json.Unmarshal(data, &i)
	}
	return i, err
}
