package manifest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"

	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// Set is what this run has applied from some files. It is not safe for concurrent use.
type Set struct {
	target target
	// source names the files in an inventory.
	source  string
	paths   []string
	applied map[object.Ref]Document
	// digest is that of the files when they were read last.
	digest uint64
}

// target is where objects are applied.
type target interface {
	// complete completes what the manifests leave open, and refuses what must not be applied.
	complete(all []Document) error
	// begin is called before any of these objects is applied, end afterwards.
	begin(ctx context.Context, source string, all []Document) error
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
	return newSet(c, "", paths), nil
}

func newSet(to target, source string, paths []string) *Set {
	return &Set{target: to, source: source, paths: paths, applied: map[object.Ref]Document{}}
}

// Changes are the results of a Sync or a Prune, in order.
type Changes struct {
	Applied, Deleted []object.Ref
	// Missing are objects that were applied and that the files do not hold now. Prune deletes them.
	Missing []object.Ref
}

// Sync reads the files again and applies the differences. An object that fails does not
// stop the others. If a file cannot be read nothing is changed, because a missing object
// may be a typing error; nor if a file is empty that had objects.
func (s *Set) Sync(ctx context.Context) (Changes, error) {
	work, err := s.read()
	if err != nil {
		return Changes{}, err
	}
	return s.applyStages(ctx, work)
}

// Prune reads the files again. If they are those of the last Sync, it deletes what they do not hold; otherwise it
// is a Sync. The caller lets some time pass in between: many programs save a file in several steps, and between two
// of them it may hold fewer documents, or be gone from its folder.
func (s *Set) Prune(ctx context.Context) (Changes, error) {
	before := s.digest
	work, err := s.read()
	switch {
	case err != nil:
		return Changes{}, err
	case s.digest != before:
		return s.applyStages(ctx, work)
	}
	return s.deleteAll(ctx, work.deleted)
}

// read compares the files with what is applied.
func (s *Set) read() (changeSet, error) {
	r, err := readAll(s.paths)
	s.digest = r.digest
	if err == nil {
		err = s.target.complete(r.documents)
	}
	if err != nil {
		return changeSet{}, err
	}
	work := s.compare(r.documents)
	if len(work.deleted) > 0 {
		err = refuseEmpty(r.empty)
	}
	return work, err
}

func (s *Set) applyStages(ctx context.Context, work changeSet) (Changes, error) {
	var changes Changes
	var problems []error
	for _, stage := range work.stages {
		landed, err := s.applyAll(ctx, stage)
		changes.Applied = append(changes.Applied, landed...)
		problems = append(problems, err)
	}
	changes.Missing = lists.Map(work.deleted, func(d Document) object.Ref { return RefOf(d.Object) })
	return changes, errors.Join(problems...)
}

func (s *Set) deleteAll(ctx context.Context, all []Document) (Changes, error) {
	var changes Changes
	var problems []error
	for _, gone := range all {
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
	problems := lists.Map(files, func(file string) error {
		return fmt.Errorf("%s: the file is empty, so nothing was changed; to delete its objects, leave a comment in it", file)
	})
	return errors.Join(problems...)
}

// changeSet is the difference between the files and the applied objects.
type changeSet struct {
	stages  [2][]Document // prerequisites, then the rest
	deleted []Document    // in reverse order of the files
}

func (s *Set) compare(documents []Document) changeSet {
	var w changeSet
	wanted := map[object.Ref]bool{}
	for _, d := range documents {
		key := RefOf(d.Object)
		wanted[key] = true
		// What a former run has applied has no file, and is applied once in this one.
		if before, there := s.applied[key]; !there || before.File == "" || !reflect.DeepEqual(before.Object, d.Object) {
			w.stages[stage(key)] = append(w.stages[stage(key)], d)
		}
	}
	for key, before := range s.applied {
		if !wanted[key] {
			w.deleted = append(w.deleted, before)
		}
	}
	slices.SortFunc(w.deleted, func(a, b Document) int { // Dependents come before their prerequisites.
		return cmp.Or(stage(RefOf(b.Object))-stage(RefOf(a.Object)), b.Line-a.Line)
	})
	return w
}

// applyAll applies one stage and waits for new kinds.
func (s *Set) applyAll(ctx context.Context, stage []Document) ([]object.Ref, error) {
	var landed []object.Ref
	var problems []error
	if len(stage) == 0 {
		return nil, nil
	}
	if err := s.target.begin(ctx, s.source, stage); err != nil {
		return nil, err
	}
	for _, d := range stage {
		if err := s.applyOne(ctx, d); err != nil {
			problems = append(problems, fmt.Errorf("%s: %s: %w", d.Locate(err), RefOf(d.Object), err))
			continue
		}
		landed = append(landed, RefOf(d.Object))
	}
	return landed, errors.Join(append(problems, s.target.end(ctx))...)
}

func (s *Set) applyOne(ctx context.Context, d Document) error {
	if err := s.target.apply(ctx, d.Object); err != nil {
		return err
	}
	s.applied[RefOf(d.Object)] = d
	if RefOf(d.Object).GroupKind() == crdKind {
		return s.target.established(ctx, d.Object)
	}
	return nil
}
