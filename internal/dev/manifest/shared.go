package manifest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/csaupgrade"

	setpoint "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/config/crd"
	"github.com/setpoint-dev/setpoint/internal/dev/inventory"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// Shared is a cluster with objects of others. Of those that exist, it changes and deletes only what runs with
// its inventory have created; Namespaces and equal CRDs of others are used.
type Shared struct {
	*cluster
	Inventory *inventory.Inventory
	// Namespaces are those in which objects may be applied; the first is the default.
	Namespaces []string
	// Reviews allows AdmissionControllers: the API server reaches the webhook server of this machine.
	Reviews bool
}

// NewShared returns a cluster with objects of others.
func NewShared(config *rest.Config, i *inventory.Inventory, namespaces []string) (*Shared, error) {
	c, err := connect(config)
	return &Shared{cluster: c, Inventory: i, Namespaces: namespaces}, err
}

// decision is what applying an object means.
type decision int

const (
	toCreate decision = iota
	toUpdate
	// toUse leaves an object of others as it is.
	toUse
)

// errForeign means that an object exists that no run has created.
var errForeign = errors.New("exists, and was not created by setpoint dev: it stays as it is; give yours another name, or delete that one")

// complete sets the namespace of objects without one, and refuses what must not be applied.
func (s *Shared) complete(all []Document) error {
	var problems []error
	for _, d := range all {
		if err := s.completeOne(d, all); err != nil {
			problems = append(problems, fmt.Errorf("%s: %s: %w", d, RefOf(d.Object), err))
		}
	}
	return errors.Join(problems...)
}

func (s *Shared) completeOne(d Document, all []Document) error {
	o := d.Object
	if o.GroupVersionKind().Group == setpoint.GroupVersion.Group && o.GetKind() == setpoint.AdmissionControllerKind && !s.Reviews {
		return errors.New("the API server of this cluster does not reach the webhook server on this machine: use --admission-url with " +
			"the URL of a tunnel to it, or `setpoint dev` without --context")
	}
	limited := o.GetNamespace()
	switch kind, known := s.kindOf(o, all); {
	case RefOf(o).GroupKind() == namespaceKind:
		limited = o.GetName()
	case known && !kind.Namespaced, slices.Contains(ControllerGroups, kind.Group):
		return nil
	case known && limited == "":
		o.SetNamespace(s.Namespaces[0])
		return nil
	}
	if limited != "" && !slices.Contains(s.Namespaces, limited) {
		return fmt.Errorf("namespace %s is none of those of this run, %s; add it with --namespaces",
			limited, strings.Join(s.Namespaces, ", "))
	}
	return nil
}

// kindOf returns the plural and the scope of an object's kind, by the CRDs among the manifests or by what the API server
// serves.
func (s *Shared) kindOf(o *unstructured.Unstructured, all []Document) (kind object.Kind, known bool) {
	gvk := o.GroupVersionKind()
	kind = object.Kind{Group: gvk.Group, Kind: gvk.Kind}
	for _, d := range all {
		if defined := definedKind(d.Object); defined.GroupKind() == kind.GroupKind() {
			return defined, true
		}
	}
	mapping, err := s.mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if err != nil {
		return kind, false
	}
	kind.Plural, kind.Namespaced = mapping.Resource.Resource, mapping.Scope.Name() == meta.RESTScopeNameNamespace
	return kind, true
}

// definedKind returns the kind that a CRD defines, in any version.
func definedKind(o *unstructured.Unstructured) object.Kind {
	if RefOf(o).GroupKind() != crdKind {
		return object.Kind{}
	}
	group, _, _ := unstructured.NestedString(o.Object, "spec", "group")
	kind, _, _ := unstructured.NestedString(o.Object, "spec", "names", "kind")
	plural, _, _ := unstructured.NestedString(o.Object, "spec", "names", "plural")
	scope, _, _ := unstructured.NestedString(o.Object, "spec", "scope")
	return object.Kind{Group: group, Kind: kind, Plural: plural, Namespaced: scope == "Namespaced"}
}

// decide returns what applying an object means, and the stored object if there is one.
func (s *Shared) decide(ctx context.Context, o *unstructured.Unstructured) (decision, *unstructured.Unstructured, error) {
	resource, err := s.resource(o.GroupVersionKind(), o.GetNamespace())
	if meta.IsNoMatchError(err) {
		return toCreate, nil, nil // Its CRD is among the manifests.
	}
	if err != nil {
		return toCreate, nil, err
	}
	stored, err := resource.Get(ctx, o.GetName(), metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return toCreate, nil, nil
	case err != nil:
		return toCreate, nil, err
	case s.Inventory != nil && s.Inventory.Owns(entryOf(o), stored):
		return toUpdate, stored, nil
	case RefOf(o).GroupKind() == namespaceKind:
		return toUse, stored, nil
	case RefOf(o).GroupKind() == crdKind:
		return toUse, stored, checkSameCRD(stored, o)
	}
	return toUse, stored, errForeign
}

func entryOf(o *unstructured.Unstructured) inventory.Entry {
	return inventory.Entry{APIVersion: o.GetAPIVersion(), Kind: o.GetKind(), Namespace: o.GetNamespace(), Name: o.GetName()}
}

// begin lists what is going to be created in the inventory.
func (s *Shared) begin(ctx context.Context, source string, all []Document) error {
	if err := s.InstallKinds(ctx, all); err != nil {
		return err
	}
	var planned []inventory.Entry
	for _, d := range all {
		if what, _, err := s.decide(ctx, d.Object); err == nil && what == toCreate {
			e := entryOf(d.Object)
			e.Source = source
			planned = append(planned, e)
		}
	}
	return s.Inventory.Plan(ctx, planned)
}

// end stores the UIDs of what was created.
func (s *Shared) end(ctx context.Context) error { return s.Inventory.Store(ctx) }

// apply creates an object, or updates one that a run has created.
func (s *Shared) apply(ctx context.Context, o *unstructured.Unstructured) error {
	return s.retry(ctx, o.GroupVersionKind(), func() error {
		what, stored, err := s.decide(ctx, o)
		switch {
		case err != nil || what == toUse:
			return err
		case what == toCreate:
			return s.create(ctx, o)
		}
		return s.update(ctx, o, stored)
	})
}

// create creates an object. It never takes one that another client has created meanwhile.
func (s *Shared) create(ctx context.Context, o *unstructured.Unstructured) error {
	resource, err := s.resource(o.GroupVersionKind(), o.GetNamespace())
	if err != nil {
		return err
	}
	created, err := resource.Create(ctx, s.labeled(o), metav1.CreateOptions{FieldManager: fieldManager,
		FieldValidation: metav1.FieldValidationStrict})
	if apierrors.IsAlreadyExists(err) {
		s.Inventory.Forget(entryOf(o))
		return errForeign
	}
	if err != nil {
		return err
	}
	s.Inventory.Created(entryOf(o), created.GetUID())
	return nil
}

// labeled returns an object with the label of the run.
func (s *Shared) labeled(o *unstructured.Unstructured) *unstructured.Unstructured {
	o = o.DeepCopy()
	labels := o.GetLabels()
	if labels == nil {
		labels = map[string]string{}
	}
	labels[setpoint.LabelDevRun] = s.Inventory.ID()
	o.SetLabels(labels)
	return o
}

// update applies an object that a run has created. Fields that the creation has set, and the manifest has no
// more, are removed: for that they must be those of an apply.
func (s *Shared) update(ctx context.Context, o, stored *unstructured.Unstructured) error {
	resource, err := s.resource(o.GroupVersionKind(), o.GetNamespace())
	if err != nil {
		return err
	}
	patch, err := csaupgrade.UpgradeManagedFieldsPatch(stored, sets.New(fieldManager), fieldManager)
	if err == nil && len(patch) > 0 {
		_, err = resource.Patch(ctx, o.GetName(), types.JSONPatchType, patch, metav1.PatchOptions{FieldManager: fieldManager})
	}
	if err != nil {
		return err
	}
	applied := s.labeled(o)
	applied.SetUID(stored.GetUID()) // An object that was replaced meanwhile is a conflict.
	return s.patch(ctx, applied)
}

// ControllerGroups are the API groups of controllers.
var ControllerGroups = []string{"setpoint.dev", "metacontroller.k8s.io"}

// InstallKinds creates the CRDs of controllers that are among the manifests and not served yet, and brings those up to date
// that a run has created. Those of an installed Setpoint are used, also in another version: the API server refuses fields that
// they lack.
func (s *Shared) InstallKinds(ctx context.Context, all []Document) error {
	used := map[object.GroupKind]bool{}
	for _, d := range all {
		if kind := RefOf(d.Object).GroupKind(); slices.Contains(ControllerGroups, kind.Group) {
			used[kind] = true
		}
	}
	if len(used) == 0 {
		return nil
	}
	definitions, err := ownDefinitions()
	if err != nil {
		return err
	}
	definitions = slices.DeleteFunc(definitions, func(d Document) bool {
		if !used[definedKind(d.Object).GroupKind()] {
			return true
		}
		what, _, _ := s.decide(ctx, d.Object) // Applying it has the same error.
		return what == toUse
	})
	if _, err := newSet(s, "", nil).applyAll(ctx, definitions); err != nil {
		return fmt.Errorf("install the CRDs of controllers, which the cluster lacks: %w", err)
	}
	return nil
}

// ownDefinitions returns the CRDs of controllers.
func ownDefinitions() (all []Document, err error) {
	for _, text := range crd.All() {
		documents, wrong := Parse("setpoint", text)
		all, err = append(all, documents...), cmp.Or(err, wrong)
	}
	return all, err
}

// NewSharedSet returns the set of what former runs have created from the same source, so that what the files
// hold no more is deleted.
func NewSharedSet(s *Shared, source string, paths []string) *Set {
	set := newSet(s, source, paths)
	for _, e := range s.Inventory.Entries {
		if e.Source != source {
			continue
		}
		o := &unstructured.Unstructured{}
		o.SetAPIVersion(e.APIVersion)
		o.SetKind(e.Kind)
		o.SetNamespace(e.Namespace)
		o.SetName(e.Name)
		set.applied[RefOf(o)] = Document{Object: o}
	}
	return set
}
