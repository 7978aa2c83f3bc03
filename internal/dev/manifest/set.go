package manifest

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"

	"github.com/setpoint-dev/setpoint/internal/object"
)

// Set is what this run has applied from some files. It is not safe for concurrent use.
type Set struct {
	target target
	// source names the files in an inventory.
	source  string
	paths   []string
	applied map[object.Ref]applied
}

type applied struct {
	document Document
	digest   uint64
}

// target is where objects are applied.
type target interface {
	// complete completes what the manifests leave open, and refuses what must not be applied.
	complete(all []Document) error
	// begin is called before any of these objects is applied, end afterwards.
	begin(ctx context.Context, source string, objects []*unstructured.Unstructured) error
	end(ctx context.Context) error
	apply(ctx context.Context, o *unstructured.Unstructured) error
	// delete reports whether the object is gone: it may be kept, which an error explains if the user
	// should know.
	delete(ctx context.Context, o *unstructured.Unstructured) (bool, error)
	established(ctx context.Context, definition *unstructured.Unstructured) error
}

// NewSet returns an empty set for the manifests at paths, in a cluster of our own.
func NewSet(config *rest.Config, paths []string) (*Set, error) {
	c, err := connect(config)
	if err != nil {
		return nil, err
	}
	return &Set{target: c, paths: paths, applied: map[object.Ref]applied{}}, nil
}

// NewSharedSet returns the set of what former runs have created from the same source, so that what the files
// hold no more is deleted.
func NewSharedSet(s *Shared, source string, paths []string) *Set {
	set := &Set{target: s, source: source, paths: paths, applied: map[object.Ref]applied{}}
	for _, e := range s.Inventory.Entries {
		if e.Source != source {
			continue
		}
		o := &unstructured.Unstructured{}
		o.SetAPIVersion(e.APIVersion)
		o.SetKind(e.Kind)
		o.SetNamespace(e.Namespace)
		o.SetName(e.Name)
		set.applied[RefOf(o)] = applied{document: Document{Object: o}}
	}
	return set
}

// Changes are the results of a Sync, in order.
type Changes struct{ Applied, Deleted []object.Ref }

// Sync reads the files again and applies the differences. An object that fails does not
// stop the others. If a file cannot be read nothing is changed, because a missing object
// may be a typing error; nor if a file is empty that had objects.
func (s *Set) Sync(ctx context.Context) (Changes, error) {
	documents, empty, err := readAll(s.paths)
	if err == nil {
		err = s.target.complete(documents)
	}
	if err != nil {
		return Changes{}, err
	}
	work, err := s.compare(documents)
	if err == nil && len(work.deleted) > 0 {
		err = refuseEmpty(empty)
	}
	if err != nil {
		return Changes{}, err
	}
	var changes Changes
	var problems []error
	for _, stage := range work.stages {
		landed, err := s.applyAll(ctx, stage)
		changes.Applied = append(changes.Applied, landed...)
		problems = append(problems, err)
	}
	for _, gone := range work.deleted {
		deleted, err := s.target.delete(ctx, gone.Object)
		if err != nil {
			problems = append(problems, fmt.Errorf("delete %s: %w", RefOf(gone.Object), err))
			continue
		}
		delete(s.applied, RefOf(gone.Object))
		if deleted {
			changes.Deleted = append(changes.Deleted, RefOf(gone.Object))
		}
	}
	return changes, errors.Join(problems...)
}

// refuseEmpty refuses to delete objects because a file is empty: many programs empty a file before they
// write it, and a CRD would take all objects of its kind with it.
func refuseEmpty(files []string) error {
	var problems []error
	for _, file := range files {
		problems = append(problems, fmt.Errorf("%s: the file is empty, so nothing was changed; to delete its objects, leave a comment in it", file))
	}
	return errors.Join(problems...)
}

// changeSet is the difference between the files and the applied objects.
type changeSet struct {
	stages  [2][]applied // prerequisites, then the rest
	deleted []Document   // in reverse order of the files
}

func (s *Set) compare(documents []Document) (changeSet, error) {
	var w changeSet
	wanted := map[object.Ref]bool{}
	for _, d := range documents {
		key := RefOf(d.Object)
		wanted[key] = true
		sum, err := digest(d.Object)
		if err != nil {
			return changeSet{}, fmt.Errorf("%s: %w", d, err)
		}
		if before, there := s.applied[key]; !there || before.digest != sum {
			w.stages[stage(key)] = append(w.stages[stage(key)], applied{d, sum})
		}
	}
	for key, before := range s.applied {
		if !wanted[key] {
			w.deleted = append(w.deleted, before.document)
		}
	}
	slices.SortFunc(w.deleted, reverseOrder)
	return w, nil
}

// reverseOrder sorts dependents before their prerequisites.
func reverseOrder(a, b Document) int {
	if byStage := stage(RefOf(b.Object)) - stage(RefOf(a.Object)); byStage != 0 {
		return byStage
	}
	return b.Line - a.Line
}

// applyAll applies one stage and waits for new kinds.
func (s *Set) applyAll(ctx context.Context, stage []applied) ([]object.Ref, error) {
	var landed []object.Ref
	var problems []error
	if len(stage) == 0 {
		return nil, nil
	}
	objects := make([]*unstructured.Unstructured, len(stage))
	for i, item := range stage {
		objects[i] = item.document.Object
	}
	if err := s.target.begin(ctx, s.source, objects); err != nil {
		return nil, err
	}
	for _, item := range stage {
		if err := s.applyOne(ctx, item); err != nil {
			problems = append(problems, fmt.Errorf("%s: %s: %w", item.document.Locate(err), RefOf(item.document.Object), err))
			continue
		}
		landed = append(landed, RefOf(item.document.Object))
	}
	return landed, errors.Join(append(problems, s.target.end(ctx))...)
}

func (s *Set) applyOne(ctx context.Context, item applied) error {
	object := item.document.Object
	if err := s.target.apply(ctx, object); err != nil {
		return err
	}
	s.applied[RefOf(object)] = item
	if RefOf(object).GroupKind() == crdKind {
		return s.target.established(ctx, object)
	}
	return nil
}
