package manager

import (
	"cmp"
	"context"
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

// maxVersions is how many versions of the logic of a controller are stored.
const maxVersions = 10

// storeVersion stores the version in the spec of a controller as its latest revision.
func (cs *controllerSet) storeVersion(ctx context.Context, declared *object.Object, version *compile.Rollout) error {
	w, namespace := cs.manager.writer(), cs.manager.options.Namespace
	stored, err := w.List(ctx, plan.ControllerRevisions, namespace, setpoint.LabelControllerUID+"="+declared.UID())
	if err != nil {
		return fmt.Errorf("list the ControllerRevisions in %s: %w", namespace, err)
	}
	slices.SortFunc(stored, func(a, b *object.Object) int { return cmp.Compare(rollout.Number(a), rollout.Number(b)) })
	number := int64(1)
	if len(stored) > 0 {
		number = rollout.Number(stored[len(stored)-1]) + 1
	}
	i := slices.IndexFunc(stored, func(o *object.Object) bool { return o.Name() == version.Version })
	switch {
	case i < 0:
		err = cs.createVersion(ctx, declared, version, number)
	case i < len(stored)-1:
		// It is the latest again, as with kubectl rollout undo.
		var again *object.Object
		if again, err = stored[i].With(strconv.AppendInt(nil, number, 10), "revision"); err == nil {
			_, err = w.Update(ctx, plan.ControllerRevisions, again)
		}
	}
	if err != nil {
		return fmt.Errorf("store the ControllerRevision %s/%s: %w", namespace, version.Version, err)
	}
	return cs.pruneVersions(ctx, declared, version.Version, stored)
}

func (cs *controllerSet) createVersion(ctx context.Context, declared *object.Object, version *compile.Rollout, number int64) error {
	revision, err := object.Encode(map[string]any{
		"apiVersion": plan.ControllerRevisions.APIVersion(), "kind": plan.ControllerRevisions.Kind,
		"metadata": map[string]any{
			"name": version.Version, "namespace": cs.manager.options.Namespace,
			"labels":          map[string]any{setpoint.LabelControllerUID: declared.UID()},
			"ownerReferences": []any{plan.OwnerReferenceTo(declared)},
		},
		"data": version.Data, "revision": number,
	})
	if err != nil {
		return err
	}
	_, err = cs.manager.writer().Create(ctx, plan.ControllerRevisions, revision)
	if apply.AlreadyExists(err) {
		return fmt.Errorf("%w; it does not have the label %s of this controller: delete it", err, setpoint.LabelControllerUID)
	}
	return err
}

// pruneVersions deletes the oldest versions, but none that is in use.
func (cs *controllerSet) pruneVersions(ctx context.Context, declared *object.Object, latest string, oldest []*object.Object) error {
	used := rollout.Used(storedStatus(declared).Rollout)
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
		if _, err := cs.manager.writer().Delete(ctx, plan.ControllerRevisions, revision); err != nil && !apply.NotFound(err) {
			return fmt.Errorf("delete %s: %w", revision.Ref(), err)
		}
		excess--
	}
	return nil
}
