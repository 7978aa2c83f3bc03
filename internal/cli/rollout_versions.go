package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	setpoint "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/dashboard/userclient"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
)

// logicRevision is a ControllerRevision with a version of the hooks.
type logicRevision struct {
	Revision int64               `json:"revision"`
	Metadata revisionMeta        `json:"metadata"`
	Data     compile.VersionData `json:"data"`
}

type revisionMeta struct {
	Name              string      `json:"name"`
	Namespace         string      `json:"namespace"`
	CreationTimestamp metav1.Time `json:"creationTimestamp"`
}

// versions returns the stored versions of the controller, the latest first.
func (r *rolloutRun) versions(ctx context.Context) ([]logicRevision, error) {
	s := r.controller.Status.Rollout
	if s == nil || s.Namespace == "" {
		return nil, fmt.Errorf("%s has no versions yet", r.name)
	}
	kind := object.KindOf(plan.ControllerRevisions)
	names, err := r.perms.api.LabelledNames(ctx, kind, s.Namespace, setpoint.LabelControllerUID+"="+r.controller.Metadata.UID)
	if err != nil {
		return nil, err
	}
	var all []logicRevision
	for _, name := range names {
		text, err := r.perms.api.Get(ctx, kind, s.Namespace, name)
		if err != nil {
			return nil, err
		}
		var v logicRevision
		if err := json.Unmarshal(text, &v); err != nil {
			return nil, fmt.Errorf("read the ControllerRevision %s/%s: %w", s.Namespace, name, err)
		}
		all = append(all, v)
	}
	slices.SortFunc(all, func(a, b logicRevision) int { return cmp.Compare(b.Revision, a.Revision) })
	return all, nil
}

func (r *rolloutRun) history(ctx context.Context) error {
	all, err := r.versions(ctx)
	if err != nil {
		return err
	}
	if r.structured() {
		return r.printValue(r.stdout, map[string]any{"items": all})
	}
	var rows []row
	for _, v := range all {
		headers, cells := r.columns(
			column{header: "REVISION", cell: strconv.FormatInt(v.Revision, 10)},
			column{header: "NAME", cell: v.Metadata.Name},
			column{header: "STATE", cell: r.stateOf(v.Metadata.Name)},
			column{header: "AGE", cell: ago(v.Metadata.CreationTimestamp.Time, time.Now())},
		)
		rows = append(rows, row{headers: headers, cells: cells, key: v.Metadata.Name, version: v.Metadata.Name})
	}
	return r.printRows(r.stdout, r.table(r.stdout), rows)
}

// stateOf returns what a version is for the rollout.
func (r *rolloutRun) stateOf(name string) string {
	switch s := r.controller.Status.Rollout; {
	case name == s.To && s.Phase == setpoint.RolloutComplete:
		return "complete"
	case name == s.To && s.Phase == setpoint.RolloutRolledBack:
		return "rolled back"
	case name == s.To:
		return fmt.Sprintf("%d of %d parents", s.Moved, s.Total)
	case name == s.From && s.Phase == setpoint.RolloutRolledBack:
		return "all parents"
	case name == s.From:
		return fmt.Sprintf("%d of %d parents", s.Total-s.Moved, s.Total)
	case name == s.Previous && s.Phase == setpoint.RolloutComplete:
		return "previous"
	}
	return ""
}

func (r *rolloutRun) undo(ctx context.Context) error {
	all, err := r.versions(ctx)
	if err != nil {
		return err
	}
	to, err := r.undoTarget(all)
	if err != nil {
		return err
	}
	for _, one := range to.Data.ConfigMaps {
		if err := r.restoreCode(ctx, one); err != nil {
			return err
		}
	}
	if err := r.restoreHooks(ctx, to); err != nil {
		return err
	}
	fmt.Fprintf(r.stdout, "%s: hooks of revision %d (%s) written into the spec\n", r.name, to.Revision, clean(to.Metadata.Name))
	return nil
}

// undoTarget returns the version to return to: the one of the flag, the one that a rollout comes from, or the one
// that was complete before. One that was taken back is never returned to.
func (r *rolloutRun) undoTarget(all []logicRevision) (logicRevision, error) {
	s := r.controller.Status.Rollout
	before := cmp.Or(s.From, s.Previous)
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
		return logicRevision{}, errorWithHint{fmt.Errorf("%s has no revision %d", r.name, r.revision), hint}
	}
	if before != "" {
		err := fmt.Errorf("the version before is missing: there is no ControllerRevision %s/%s", s.Namespace, clean(before))
		return logicRevision{}, errorWithHint{err, hint + " for --to-revision; or write the former hooks into spec.hooks, which stores them again"}
	}
	return logicRevision{}, errorWithHint{errors.New("there is no version before the present one"), hint}
}

// patchOperation is one operation of a JSON patch.
type patchOperation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value,omitempty"`
}

// restoreHooks replaces the hooks in the spec.
func (r *rolloutRun) restoreHooks(ctx context.Context, to logicRevision) error {
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
	return r.patchJSON(ctx, r.ref, patch)
}

// restoreCode replaces the code in a ConfigMap, if it differs.
func (r *rolloutRun) restoreCode(ctx context.Context, then compile.CodeConfigMap) error {
	kind := object.KindOf(object.ConfigMaps)
	text, err := r.perms.api.Get(ctx, kind, then.Namespace, then.Name)
	if err != nil {
		return err
	}
	var now struct {
		Metadata struct{ UID, ResourceVersion string }
		Data     map[string]string
	}
	if err := json.Unmarshal(text, &now); err != nil {
		return fmt.Errorf("read ConfigMap %s/%s: %w", then.Namespace, then.Name, err)
	}
	if maps.Equal(now.Data, then.Data) {
		return nil
	}
	ref := object.Ref{Kind: kind, Namespace: then.Namespace, Name: then.Name}
	err = r.patchJSON(ctx, ref, []patchOperation{
		{"test", "/metadata/uid", now.Metadata.UID}, {"test", "/metadata/resourceVersion", now.Metadata.ResourceVersion}, {"add", "/data", then.Data},
	})
	if err == nil {
		fmt.Fprintf(r.stdout, "ConfigMap %s/%s: code of that revision written: %s\n", then.Namespace, then.Name, clean(changedKeys(now.Data, then.Data)))
	}
	return err
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

func (r *rolloutRun) patchJSON(ctx context.Context, ref object.Ref, patch []patchOperation) error {
	body, err := json.Marshal(patch)
	if err != nil {
		return err
	}
	_, err = r.perms.api.Patch(ctx, ref, types.JSONPatchType, body, userclient.WriteOptions{})
	return err
}
