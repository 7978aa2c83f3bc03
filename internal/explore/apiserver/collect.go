package apiserver

import (
	"encoding/json"
	"net/http"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/setpoint-dev/setpoint/internal/object"
)

// Change is a state that can follow, and what led to it.
type Change struct {
	State *State
	// Name says what happens, such as "becomes ready".
	Name string
	// Object is the identity of what it is about.
	Object object.Ref
	// Failure reports whether it is a failure of the environment, of which a search allows only so many.
	Failure bool
}

// Collect returns the states that garbage collection and the end of namespaces can lead to next, each by one write.
func (s *Server) Collect(state *State) []Change {
	c := collector{server: s, state: state}
	for o := range state.Objects() {
		c.collect(o)
	}
	return c.changes
}

// collector finds the next steps of the garbage collector, which works like that of kube-controller-manager.
type collector struct {
	server  *Server
	state   *State
	changes []Change
}

// collect adds the next steps for an object.
func (c *collector) collect(o *object.Object) {
	if o.GroupKind() == namespaces.GroupKind() && o.Deleting() {
		c.endNamespace(o)
		return
	}
	switch {
	case o.HasFinalizer(metav1.FinalizerOrphanDependents) && o.Deleting():
		c.orphan(o)
	case o.HasFinalizer(metav1.FinalizerDeleteDependents) && o.Deleting():
		c.deleteDependents(o)
	case !o.Deleting():
		c.checkOwners(o)
	}
}

// orphan removes an owner from its dependents, and then its finalizer.
func (c *collector) orphan(owner *object.Object) {
	dependents := c.dependentsOf(owner.UID())
	for _, dependent := range dependents {
		c.removeOwners(dependent, "is orphaned", func(ref metav1.OwnerReference) bool { return string(ref.UID) == owner.UID() })
	}
	if len(dependents) == 0 {
		c.removeFinalizer(owner, metav1.FinalizerOrphanDependents)
	}
}

// deleteDependents deletes dependents, and then removes the finalizer of the owner. Only dependents that block the
// deletion have to be gone by then.
func (c *collector) deleteDependents(owner *object.Object) {
	blocking := false
	for _, dependent := range c.dependentsOf(owner.UID()) {
		for _, ref := range ownersOf(dependent) {
			blocking = blocking || string(ref.UID) == owner.UID() && ref.BlockOwnerDeletion != nil && *ref.BlockOwnerDeletion
		}
	}
	if !blocking {
		c.removeFinalizer(owner, metav1.FinalizerDeleteDependents)
	}
}

// checkOwners deletes an object without owners, and removes references to owners that are gone.
func (c *collector) checkOwners(o *object.Object) {
	refs := ownersOf(o)
	if len(refs) == 0 {
		return
	}
	solid, waiting, unknown := 0, 0, false
	for _, ref := range refs {
		switch owner, known := c.owner(o, ref); {
		case !known:
			unknown = true
		case owner == nil:
		case waitsForDependents(owner):
			waiting++
		default:
			solid++
		}
	}
	switch {
	case unknown:
		// The garbage collector cannot look up owners of kinds that are not served, and leaves the object alone.
	case solid == len(refs):
	case solid > 0:
		c.removeOwners(o, "loses a reference to an owner that is gone", func(ref metav1.OwnerReference) bool {
			owner, _ := c.owner(o, ref)
			return owner == nil || waitsForDependents(owner)
		})
	case waiting > 0 && len(c.dependentsOf(o.UID())) > 0:
		c.deleteOrphan(o, metav1.DeletePropagationForeground)
	default:
		c.deleteOrphan(o, policyOf(o))
	}
}

// policyOf returns how an object without owners is deleted.
func policyOf(o *object.Object) metav1.DeletionPropagation {
	switch {
	case o.HasFinalizer(metav1.FinalizerOrphanDependents):
		return metav1.DeletePropagationOrphan
	case o.HasFinalizer(metav1.FinalizerDeleteDependents):
		return metav1.DeletePropagationForeground
	}
	return metav1.DeletePropagationBackground
}

// waitsForDependents reports whether an owner is to go after its dependents.
func waitsForDependents(owner *object.Object) bool {
	return owner.Deleting() && owner.HasFinalizer(metav1.FinalizerDeleteDependents)
}

// owner returns the owner of a reference, nil if it is gone. It is unknown if its kind is not served. An owner in
// another namespace does not count.
func (c *collector) owner(o *object.Object, ref metav1.OwnerReference) (owner *object.Object, known bool) {
	kind, served := c.server.Resource(object.NewKind(ref.APIVersion, ref.Kind).GroupKind())
	if !served {
		return nil, false
	}
	namespace := ""
	if kind.Namespaced {
		namespace = o.Namespace()
	}
	owner = c.state.Get(kind, namespace, ref.Name)
	if owner == nil || owner.UID() != string(ref.UID) {
		return nil, true
	}
	return owner, true
}

func (c *collector) resourceOf(o *object.Object) object.Resource {
	return c.server.groups[o.GroupKind()].Resource
}

func (c *collector) dependentsOf(uid string) []*object.Object {
	var found []*object.Object
	for o := range c.state.Objects() {
		if slices.ContainsFunc(ownersOf(o), func(ref metav1.OwnerReference) bool { return string(ref.UID) == uid }) {
			found = append(found, o)
		}
	}
	return found
}

func ownersOf(o *object.Object) []metav1.OwnerReference {
	field := o.Field("metadata", "ownerReferences")
	if field == nil {
		return nil
	}
	var refs []metav1.OwnerReference
	if json.Unmarshal(field, &refs) != nil {
		return nil // It is stored, so it is valid.
	}
	return refs
}

func (c *collector) deleteOrphan(o *object.Object, policy metav1.DeletionPropagation) {
	uid, version := types.UID(o.UID()), o.ResourceVersion()
	c.add(o, "has no owner any more and is deleted", DeletionOf(c.resourceOf(o), o, metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &uid, ResourceVersion: &version}, PropagationPolicy: &policy,
	}))
}

func (c *collector) removeOwners(o *object.Object, what string, matches func(metav1.OwnerReference) bool) {
	left := slices.DeleteFunc(ownersOf(o), matches)
	c.add(o, what, PatchOf(c.resourceOf(o), o, "", map[string]any{
		"metadata": map[string]any{"uid": o.UID(), "ownerReferences": left},
	}))
}

func (c *collector) removeFinalizer(o *object.Object, name string) {
	left := slices.DeleteFunc(o.Finalizers(), func(has string) bool { return has == name })
	c.add(o, "loses the finalizer "+name, PatchOf(c.resourceOf(o), o, "", map[string]any{
		"metadata": map[string]any{"resourceVersion": o.ResourceVersion(), "finalizers": left},
	}))
}

// add adds a step.
func (c *collector) add(o *object.Object, what string, write Request) {
	c.changes = c.server.AppendChange(c.changes, Change{c.state, what, o.Ref().Identity(), false}, "kube-controller-manager", write)
}

// AppendChange adds a change that a manager makes by writes to its state, unless one of them is rejected, or nothing changes.
func (s *Server) AppendChange(changes []Change, c Change, manager string, writes ...Request) []Change {
	before := c.State
	for _, write := range writes {
		var err error
		if c.State, _, err = s.Send(c.State, manager, write); err != nil {
			return changes
		}
	}
	if c.State == before {
		return changes
	}
	return append(changes, c)
}

// endNamespace deletes what is in a namespace, and then the namespace.
func (c *collector) endNamespace(namespace *object.Object) {
	empty := true
	background := metav1.DeletePropagationBackground
	for o := range c.state.Objects() {
		if o.Namespace() != namespace.Name() {
			continue
		}
		empty = false
		if !o.Deleting() {
			c.add(o, "is deleted with its namespace", DeletionOf(c.resourceOf(o), o,
				metav1.DeleteOptions{PropagationPolicy: &background}))
		}
	}
	if !empty {
		return
	}
	bare, err := namespace.With([]byte("[]"), "spec", "finalizers")
	if err != nil {
		return // A stored namespace has a spec.
	}
	c.add(namespace, "is empty and goes", Request{
		Method: http.MethodPut, Resource: namespaces, Name: namespace.Name(), Subresource: "finalize", Body: bare.JSON(),
	})
}
