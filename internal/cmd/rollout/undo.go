package rollout

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	setpoint "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/internal/cli/command"
	"github.com/setpoint-dev/setpoint/internal/cli/output"
	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/dashboard/userclient"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/object"
)

func (r *rolloutRun) undo(ctx context.Context) error {
	all, err := r.versions(ctx)
	if err != nil {
		return err
	}
	present, err := r.presentVersion(ctx, all)
	if err != nil {
		return err
	}
	to, err := r.undoTarget(all, present)
	if err != nil {
		return err
	}
	if present == to.Metadata.Name {
		fmt.Fprintf(r.Stdout, "%s: the spec has the hooks of revision %d (%s) already\n",
			r.name, to.Revision, output.Clean(to.Metadata.Name))
		return nil
	}
	writes, err := r.undoWrites(ctx, to)
	if err != nil {
		return err
	}
	return r.makeWrites(ctx, writes)
}

// presentVersion returns the name of the version in the spec and in the ConfigMaps that have its code; empty if it
// is not stored.
func (r *rolloutRun) presentVersion(ctx context.Context, all []logicRevision) (string, error) {
	for i := range all {
		if is, err := r.inSpec(ctx, &all[i].Data); is || err != nil {
			return all[i].Metadata.Name, err
		}
	}
	return "", nil
}

// undoTarget returns the version to return to: the one of the flag, or the one before the present one. One that was
// taken back is never returned to.
func (r *rolloutRun) undoTarget(all []logicRevision, present string) (logicRevision, error) {
	before := r.versionBefore(present)
	i := slices.IndexFunc(all, func(v logicRevision) bool {
		if r.revision != 0 {
			return v.Revision == r.revision
		}
		return before != "" && v.Metadata.Name == before
	})
	if i >= 0 {
		return all[i], nil
	}
	hint := "`setpoint rollout history " + r.name + "` lists the revisions"
	if r.revision != 0 {
		return logicRevision{}, command.WithHint(fmt.Errorf("%s has no revision %d", r.name, r.revision), hint)
	}
	if before != "" {
		err := fmt.Errorf("the version before is missing: there is no ControllerRevision %s/%s", r.versionNamespace(), output.Clean(before))
		return logicRevision{}, command.WithHint(err, hint+
			" for --to-revision; or write the former hooks into spec.hooks, which stores them again")
	}
	return logicRevision{}, command.WithHint(errors.New("there is no version before the present one"), hint)
}

// versionBefore returns the version before the present one: the one that a rollout comes from, or the one that was
// complete before. If the complete version is not the present one, which is not in use yet or is not accepted, it is
// the one before.
func (r *rolloutRun) versionBefore(present string) string {
	switch s := r.controller.Status.Rollout; {
	case s == nil:
		return ""
	case s.Phase == setpoint.RolloutComplete && present != s.To:
		return s.To
	default:
		return cmp.Or(s.From, s.Previous)
	}
}

// patchOperation is one operation of a JSON patch.
type patchOperation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value,omitempty"`
}

// undoWrite is a write that returns to a version.
type undoWrite struct {
	ref object.Ref
	// create is whether the object is created, with the body; otherwise the body is a JSON patch.
	create bool
	body   []byte
	// done is printed afterwards.
	done string
}

// undoWrites returns the writes that return to a version: of the ConfigMaps with its code, then of the hooks.
func (r *rolloutRun) undoWrites(ctx context.Context, to logicRevision) (all []undoWrite, err error) {
	for _, one := range to.Data.ConfigMaps {
		w, err := r.codeWrite(ctx, one)
		if err != nil {
			return nil, err
		}
		if w != nil {
			all = append(all, *w)
		}
	}
	hooks, err := r.hooksWrite(to)
	return append(all, hooks), err
}

// makeWrites makes all writes, once the API server has accepted each in a dry run.
func (r *rolloutRun) makeWrites(ctx context.Context, all []undoWrite) error {
	for _, dryRun := range []bool{true, false} {
		for i := range all {
			err := r.makeWrite(ctx, &all[i], userclient.WriteOptions{DryRun: dryRun})
			if err != nil && (!dryRun || !apierrors.IsBadRequest(err)) { // Some webhooks do not support dry runs.
				return err
			}
			if !dryRun {
				fmt.Fprintln(r.Stdout, all[i].done)
			}
		}
	}
	return nil
}

func (r *rolloutRun) makeWrite(ctx context.Context, w *undoWrite, o userclient.WriteOptions) error {
	var err error
	if w.create {
		_, err = r.client.API.Create(ctx, w.ref.Kind, w.ref.Namespace, w.body, o)
	} else {
		_, err = r.client.API.Patch(ctx, w.ref, types.JSONPatchType, w.body, o)
	}
	return err
}

// hooksWrite replaces the hooks in the spec.
func (r *rolloutRun) hooksWrite(to logicRevision) (undoWrite, error) {
	patch := []patchOperation{
		{"test", "/metadata/uid", r.ref.UID},
		{"replace", "/spec/hooks", to.Data.Hooks},
	}
	switch {
	case to.Data.EndpointConfigs != nil:
		patch = append(patch, patchOperation{"add", "/spec/endpointConfigs", to.Data.EndpointConfigs})
	case r.controller.Spec.EndpointConfigs != nil:
		patch = append(patch, patchOperation{Op: "remove", Path: "/spec/endpointConfigs"})
	}
	body, err := json.Marshal(patch)
	done := fmt.Sprintf("%s: hooks of revision %d (%s) written into the spec", r.name, to.Revision, output.Clean(to.Metadata.Name))
	return undoWrite{ref: r.ref, body: body, done: done}, err
}

// codeWrite replaces the code in a ConfigMap, or creates the ConfigMap; nil if it has that code.
func (r *rolloutRun) codeWrite(ctx context.Context, then compile.CodeConfigMap) (*undoWrite, error) {
	now, err := r.codeConfigMap(ctx, then.Namespace, then.Name)
	w := &undoWrite{ref: object.ConfigMaps.Ref(then.Namespace, then.Name)}
	name := then.Namespace + "/" + then.Name
	switch {
	case errors.Is(err, failure.ErrNotFound):
		w.create, w.done = true, fmt.Sprintf("ConfigMap %s: created with the code of that revision", name)
		w.body, err = json.Marshal(map[string]any{
			"apiVersion": object.ConfigMaps.APIVersion(), "kind": object.ConfigMaps.Kind,
			"metadata": map[string]any{"namespace": then.Namespace, "name": then.Name}, "data": then.Data,
		})
		return w, err
	case err != nil:
		return nil, err
	case maps.Equal(now.Data, then.Data):
		return nil, nil //nolint:nilnil // There is nothing to write.
	case now.Immutable:
		return nil, command.WithHint(fmt.Errorf("ConfigMap %s is immutable, and has other code than that revision", name),
			"delete it, and run the command again, which creates it with that code")
	}
	w.done = fmt.Sprintf("ConfigMap %s: code of that revision written: %s", name, output.Clean(changedKeys(now.Data, then.Data)))
	w.body, err = json.Marshal([]patchOperation{
		{"test", "/metadata/uid", now.Metadata.UID}, {"test", "/metadata/resourceVersion", now.Metadata.ResourceVersion},
		{"add", "/data", then.Data},
	})
	return w, err
}

// changedKeys names the keys that differ. Keys that were added since are removed: they may be modules of the code.
func changedKeys(now, then map[string]string) string {
	var changes []string
	for _, key := range slices.Sorted(maps.Keys(then)) {
		if value, exists := now[key]; !exists || value != then[key] {
			changes = append(changes, key+" changed")
		}
	}
	for _, key := range slices.Sorted(maps.Keys(now)) {
		if _, exists := then[key]; !exists {
			changes = append(changes, key+" removed")
		}
	}
	return strings.Join(changes, ", ")
}
