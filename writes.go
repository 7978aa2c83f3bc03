package setpoint

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/setpoint-dev/setpoint/hook"
)

// ApplyOption says how an object is applied.
type ApplyOption interface{ toApply(*applying) }

type applyOption func(*applying)

func (o applyOption) toApply(a *applying) { o(a) }

// applying is what options say of an object to apply.
type applying struct{ unowned, copyLabels bool }

// Unowned leaves an object without an owner reference: it stays when the handled
// object goes, and nobody watches it.
func Unowned() ApplyOption { return applyOption(func(a *applying) { a.unowned = true }) }

// CopyLabels gives an object the labels of the handled one, as far as it does not
// have them itself.
func CopyLabels() ApplyOption { return applyOption(func(a *applying) { a.copyLabels = true }) }

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
	var how applying
	for _, option := range options {
		option.toApply(&how)
	}
	k, err := c.permitted(o, "Apply", c.of.of.c.applies)
	if err != nil {
		c.fail("%w", err)
		return
	}
	t, err := treeOf(o)
	if err != nil {
		c.fail("Apply: write the %s as JSON: %w", k.kind, err)
		return
	}
	t["apiVersion"], t["kind"] = k.apiVersion, k.kind
	c.adopt(t, k, how)
	strip(t)
	data, err := json.Marshal(t)
	if err != nil {
		c.fail("Apply: write the %s as JSON: %w", k.kind, err)
		return
	}
	c.out.Apply = append(c.out.Apply, hook.Applied{Object: data, Unowned: how.unowned})
}

// adopt gives an object what it has of the handled one.
func (c *Call[T]) adopt(t tree, k kind, how applying) {
	metadata := t.member("metadata")
	if metadata.text("name") == "" {
		metadata["name"] = c.generated(metadata.text("generateName"), k)
		delete(metadata, "generateName")
	}
	if how.copyLabels {
		own := metadata.member("labels")
		for name, value := range c.handled.Labels {
			if _, has := own[name]; !has {
				own[name] = value
			}
		}
	}
}

// generated is a name made of the object, the handler and how many such names
// there were in this call.
func (c *Call[T]) generated(prefix string, k kind) string {
	if prefix == "" {
		return c.notice.Name
	}
	of := k.String() + " " + prefix
	c.names[of]++
	sum := sha256.Sum256([]byte(c.handled.UID + " " + c.ref() + " " + c.of.name + " " + of + " " + strconv.Itoa(c.names[of])))
	return prefix + hex.EncodeToString(sum[:5])
}

// strip takes out what Go types write although nobody has set it.
func strip(t tree) {
	delete(t, "status")
	metadata := t.member("metadata")
	for _, name := range []string{"creationTimestamp", "managedFields", "resourceVersion", "uid", "generation"} {
		delete(metadata, name)
	}
	dropEmptyTimes(t)
}

// dropEmptyTimes drops metadata.creationTimestamp: null wherever a template has
// metadata.
func dropEmptyTimes(value any) {
	switch value := value.(type) {
	case tree:
		dropEmptyTimes(map[string]any(value))
	case map[string]any:
		if at, there := value["creationTimestamp"]; there && at == nil {
			delete(value, "creationTimestamp")
		}
		for _, inner := range value {
			dropEmptyTimes(inner)
		}
	case []any:
		for _, inner := range value {
			dropEmptyTimes(inner)
		}
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
func (c *Call[T]) DeleteAll(like any, selector string) {
	c.deleteAll("DeleteAll", like, hook.Deletion{Selector: selector})
}

// Evict has one pod evicted: deleted, unless a PodDisruptionBudget is against it;
// then it is asked for again until it is not.
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

func (c *Call[T]) deleteAll(verb string, like any, d hook.Deletion) {
	selector, err := labels.Parse(d.Selector)
	if err == nil && selector.Empty() {
		err = errors.New("the selector is empty and would select everything")
	}
	if err != nil {
		c.fail("%s(%q): %w", verb, d.Selector, err)
		return
	}
	c.addDeletion(verb, like, d)
}

func (c *Call[T]) addDeletion(verb string, o any, d hook.Deletion) {
	k, err := c.permitted(o, verb, c.of.of.c.deletes)
	if err != nil {
		c.fail("%w", err)
		return
	}
	d.APIVersion, d.Kind = k.apiVersion, k.kind
	if named, err := identify(o); err == nil {
		d.Namespace = named.Metadata.Namespace
	}
	c.out.Delete = append(c.out.Delete, d)
}

// permitted is the kind of an object that may be written.
func (c *Call[T]) permitted(o any, verb string, list []kind) (kind, error) {
	of := &c.of.of.c
	known, err := of.app.kinds()
	if err != nil {
		return kind{}, err
	}
	k, err := known.of(o)
	if err != nil {
		return kind{}, fmt.Errorf("%s: %w", verb, err)
	}
	if declares(of.owns, k) || declares(list, k) {
		return k, nil
	}
	option := "Applies"
	if verb != "Apply" {
		option = "Deletes"
	}
	return kind{}, fmt.Errorf("%s: %s is not declared: say Owns or %s of it", verb, k, option)
}

// identity is what an object is called.
type identity struct {
	Metadata struct{ Namespace, Name string }
}

func identify(o any) (identity, error) {
	var i identity
	data, err := json.Marshal(o)
	if err == nil {
		err = json.Unmarshal(data, &i)
	}
	return i, err
}
