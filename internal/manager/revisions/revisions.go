// Package revisions stores the versions of the logic of controllers as ControllerRevisions, so that a rollout can go on
// with, and back to, the version before.
package revisions

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	setpoint "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/internal/apply"
	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
	"github.com/setpoint-dev/setpoint/internal/rollout"
)

// Store has the versions of all controllers of a Setpoint.
type Store struct {
	Writer *apply.Writer
	// Namespace is that of Setpoint.
	Namespace string
}

// Previous reads the version that reconciles the parents which have not moved to another one.
func (s *Store) Previous(ctx context.Context, o *object.Object, version string) (string, json.RawMessage, error) {
	name := rollout.Former(compile.StoredStatus(o).Rollout, version)
	if name == "" {
		return "", nil, nil
	}
	revision, err := s.Writer.Get(ctx, plan.ControllerRevisions, s.Namespace, name)
	switch {
	case apply.NotFound(err) || err == nil && !revision.ControlledBy(o.UID()):
		return "", nil, &compile.Refusal{Reason: setpoint.ReasonRevisionNotFound, Err: fmt.Errorf(
			"spec.rollout: the ControllerRevision %s/%s of this controller does not exist; it has the version of the hooks for parents "+
				"that have not moved; without spec.rollout all parents move at once",
			s.Namespace, name)}
	case err != nil:
		return "", nil, fmt.Errorf("read the ControllerRevision %s/%s: %w", s.Namespace, name, err)
	}
	return name, revision.Field("data"), nil
}

// maxVersions is how many versions of the logic of a controller are stored.
const maxVersions = 10

// Put stores the version in the spec of a controller as its latest revision.
func (s *Store) Put(ctx context.Context, declared *object.Object, version *compile.Rollout) error {
	stored, err := s.Writer.List(ctx, plan.ControllerRevisions, s.Namespace, setpoint.LabelControllerUID+"="+declared.UID())
	if err != nil {
		return fmt.Errorf("list the ControllerRevisions in %s: %w", s.Namespace, err)
	}
	slices.SortFunc(stored, func(a, b *object.Object) int { return cmp.Compare(a.Revision(), b.Revision()) })
	number := int64(1)
	if len(stored) > 0 {
		number = stored[len(stored)-1].Revision() + 1
	}
	i := slices.IndexFunc(stored, func(o *object.Object) bool { return o.Name() == version.Version })
	switch {
	case i < 0:
		err = s.create(ctx, declared, version, number)
	case i < len(stored)-1:
		// It is the latest again, as with kubectl rollout undo.
		var again *object.Object
		if again, err = stored[i].With(strconv.AppendInt(nil, number, 10), "revision"); err == nil {
			_, err = s.Writer.Update(ctx, plan.ControllerRevisions, again, "")
		}
	}
	if err != nil {
		return fmt.Errorf("store the ControllerRevision %s/%s: %w", s.Namespace, version.Version, err)
	}
	return s.prune(ctx, declared, version.Version, stored)
}

func (s *Store) create(ctx context.Context, declared *object.Object, version *compile.Rollout, number int64) error {
	revision, err := object.Encode(map[string]any{
		"apiVersion": plan.ControllerRevisions.APIVersion(), "kind": plan.ControllerRevisions.Kind,
		"metadata": map[string]any{
			"name": version.Version, "namespace": s.Namespace,
			"labels":          map[string]any{setpoint.LabelControllerUID: declared.UID()},
			"ownerReferences": []any{plan.OwnerReferenceTo(declared)},
		},
		"data": version.Data, "revision": number,
	})
	if err != nil {
		return err
	}
	_, err = s.Writer.Create(ctx, plan.ControllerRevisions, revision, "")
	if apply.AlreadyExists(err) {
		return fmt.Errorf("%w; it does not have the label %s of this controller: delete it", err, setpoint.LabelControllerUID)
	}
	return err
}

// prune deletes the oldest versions, but none that is in use.
func (s *Store) prune(ctx context.Context, declared *object.Object, latest string, oldest []*object.Object) error {
	used := rollout.Used(compile.StoredStatus(declared).Rollout)
	excess := len(oldest) - maxVersions
	if !slices.ContainsFunc(oldest, func(o *object.Object) bool { return o.Name() == latest }) {
		excess++
	}
	for _, revision := range oldest {
		if excess <= 0 {
			break
		}
		if revision.Name() == latest || slices.Contains(used, revision.Name()) {
			continue
		}
		if _, err := s.Writer.Delete(ctx, plan.ControllerRevisions, revision); err != nil && !apply.NotFound(err) {
			return fmt.Errorf("delete %s: %w", revision.Ref(), err)
		}
		excess--
	}
	return nil
}
