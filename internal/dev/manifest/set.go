package manifest

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"k8s.io/client-go/rest"
)

// Set is what this run has applied from some files. Not safe for concurrent use.
type Set struct {
	cluster *cluster
	paths   []string
	applied map[Key]applied
}

type applied struct {
	document Document
	digest   uint64
}

// NewSet makes an empty set for the manifests at paths.
func NewSet(config *rest.Config, paths []string) (*Set, error) {
	c, err := connect(config)
	if err != nil {
		return nil, err
	}
	return &Set{cluster: c, paths: paths, applied: map[Key]applied{}}, nil
}

// Changes are what a Sync did, in order.
type Changes struct{ Applied, Deleted []Key }

// Sync reads the files again and brings the cluster in step with them. Objects
// that cannot be applied do not stop the others. As long as a file cannot be
// read nothing is done: what is missing from it may only be mistyped.
func (s *Set) Sync(ctx context.Context) (Changes, error) {
	documents, err := Read(s.paths)
	if err != nil {
		return Changes{}, err
	}
	work, err := s.compare(documents)
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
		if err := s.cluster.delete(ctx, gone.Object); err != nil {
			problems = append(problems, fmt.Errorf("delete %s: %w", KeyOf(gone.Object), err))
			continue
		}
		delete(s.applied, KeyOf(gone.Object))
		changes.Deleted = append(changes.Deleted, KeyOf(gone.Object))
	}
	return changes, errors.Join(problems...)
}

// changeSet is the difference between the files and what was applied from them.
type changeSet struct {
	stages  [2][]applied // what others need, then the others
	deleted []Document   // in the reverse of the order they were written in
}

func (s *Set) compare(documents []Document) (changeSet, error) {
	var w changeSet
	wanted := map[Key]bool{}
	for _, d := range documents {
		key := KeyOf(d.Object)
		wanted[key] = true
		sum, err := digest(d.Object)
		if err != nil {
			return changeSet{}, fmt.Errorf("%s: %w", d, err)
		}
		if before, there := s.applied[key]; !there || before.digest != sum {
			w.stages[key.stage()] = append(w.stages[key.stage()], applied{d, sum})
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

// reverseOrder deletes what depends on others before them.
func reverseOrder(a, b Document) int {
	if byStage := KeyOf(b.Object).stage() - KeyOf(a.Object).stage(); byStage != 0 {
		return byStage
	}
	return b.Line - a.Line
}

// applyAll applies one stage and waits until it can be built upon.
func (s *Set) applyAll(ctx context.Context, stage []applied) ([]Key, error) {
	var landed []Key
	var problems []error
	for _, item := range stage {
		if err := s.applyOne(ctx, item); err != nil {
			problems = append(problems, fmt.Errorf("%s: %s: %w", item.document, KeyOf(item.document.Object), err))
			continue
		}
		landed = append(landed, KeyOf(item.document.Object))
	}
	return landed, errors.Join(problems...)
}

func (s *Set) applyOne(ctx context.Context, item applied) error {
	object := item.document.Object
	if err := s.cluster.apply(ctx, object); err != nil {
		return err
	}
	s.applied[KeyOf(object)] = item
	if KeyOf(object).Kind == crdKind {
		return s.cluster.established(ctx, object)
	}
	return nil
}
