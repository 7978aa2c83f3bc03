package dryrun

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/setpoint-dev/setpoint/internal/manager"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// applyManifest returns the object that applying a manifest would store. Labels and annotations
// are merged, the status stays, all other fields are replaced. Where Setpoint may not write,
// or the kind or namespace does not exist yet, it returns the manifest itself with a note.
func applyManifest(ctx context.Context, m *manager.Manager, resource object.Resource, given *object.Object) (o *object.Object, note string,
	err error) {
	stored, err := m.Get(ctx, resource, given.Namespace(), given.Name())
	if err != nil && !apierrors.IsForbidden(err) {
		return nil, "", fmt.Errorf("read %s: %w", given.Ref(), err)
	}
	writer := m.DryRunTools().Writer
	wanted, write := given, writer.Create
	if stored != nil {
		write = writer.Update
		if wanted, err = mergeManifest(stored, given); err != nil {
			return nil, "", fmt.Errorf("merge %s into the stored object: %w", given.Ref(), err)
		}
	}
	tried, err := write(ctx, resource, wanted, "")
	switch {
	case err == nil:
		return tried, "", nil
	case apierrors.IsForbidden(err), apierrors.IsNotFound(err):
		return wanted, "not validated by the API server: " + err.Error(), nil
	}
	return nil, "", fmt.Errorf("dry-run apply %s: %w", given.Ref(), err)
}

// mergeManifest merges a manifest into the stored object.
func mergeManifest(stored, given *object.Object) (*object.Object, error) {
	have, errHave := object.Decode(stored.JSON())
	want, err := object.Decode(given.JSON())
	if err := errors.Join(errHave, err); err != nil {
		return nil, err
	}
	metadata, _ := have["metadata"].(map[string]any)
	for _, name := range [...]string{"labels", "annotations"} {
		if added, has := object.FieldAt(want, "metadata", name).(map[string]any); has {
			former, _ := metadata[name].(map[string]any)
			metadata[name] = object.MergePatch(former, added)
		}
	}
	want["metadata"] = metadata
	delete(want, "status")
	if status, has := have["status"]; has {
		want["status"] = status
	}
	return object.Encode(want)
}
