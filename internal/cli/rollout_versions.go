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
	namespace := "" // Without spec.rollout, the status does not say where the versions are.
	if s := r.controller.Status.Rollout; s != nil {
		namespace = s.Namespace
	}
	var found []*metav1.PartialObjectMetadata
	err := r.perms.api.EachMetadata(ctx, object.KindOf(plan.ControllerRevisions), namespace, setpoint.LabelControllerUID+"="+r.controller.Metadata.UID,
		func(o *metav1.PartialObjectMetadata) { found = append(found, o) })
	if err != nil {
		return nil, err
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("%s has no versions yet", r.name)
	}
	var all []logicRevision
	for _, each := range found {
		v, err := r.version(ctx, each.Namespace, each.Name)
		if err != nil {
			return nil, err
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
	case s == nil:
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
	before, err := r.before(ctx, all)
	if err != nil {
		return err
	}
	to, err := r.undoTarget(all, before)
	if err != nil {
		return err
	}
	restore, err := r.changedCode(ctx, to.Data.ConfigMaps)
	if err != nil {
		return err
	}
	for _, one := range restore {
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

// before returns the name of the version to return to without --to-revision: the one that a rollout comes from. Of a
// complete version it is the one that was complete before, unless the spec has another one, which is not in use yet.
// One that was taken back is never returned to.
func (r *rolloutRun) before(ctx context.Context, all []logicRevision) (string, error) {
	s := r.controller.Status.Rollout
	if s == nil || r.revision != 0 {
		return "", nil
	}
	i := slices.IndexFunc(all, func(v logicRevision) bool { return v.Metadata.Name == s.To })
	if s.Phase != setpoint.RolloutComplete || i < 0 {
		return cmp.Or(s.From, s.Previous), nil
	}
	same, err := r.isSpec(ctx, &all[i])
	if err != nil {
		return "", errorWithHint{fmt.Errorf("whether the present version is in use: %w", err), "name the version with --to-revision"}
	}
	if !same {
		return s.To, nil
	}
	return cmp.Or(s.From, s.Previous), nil
}

// undoTarget returns the version to return to: the one of the flag, or the one before.
func (r *rolloutRun) undoTarget(all []logicRevision, before string) (logicRevision, error) {
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
		err := fmt.Errorf("the version before is missing: there is no ControllerRevision %s/%s", clean(r.controller.Status.Rollout.Namespace), clean(before))
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

// codeRestore is a ConfigMap that gets code of an earlier version.
type codeRestore struct {
	compile.CodeConfigMap
	// now is what it has; nil if it was deleted.
	now *storedCode
}

// changedCode returns the ConfigMaps that have changed since, and refuses those that cannot be written.
func (r *rolloutRun) changedCode(ctx context.Context, code []compile.CodeConfigMap) ([]codeRestore, error) {
	var all []codeRestore
	for _, then := range code {
		now, err := r.codeNow(ctx, then)
		if err != nil {
			return nil, err
		}
		switch {
		case now != nil && maps.Equal(now.Data, then.Data):
			continue
		case now != nil && now.Immutable:
			return nil, errorWithHint{
				fmt.Errorf("ConfigMap %s/%s has other code now and is immutable; nothing was written", then.Namespace, then.Name),
				"delete it, then undo again, which creates it with the code of that revision",
			}
		}
		all = append(all, codeRestore{then, now})
	}
	return all, nil
}

// restoreCode replaces the code in a ConfigMap, or creates it.
func (r *rolloutRun) restoreCode(ctx context.Context, one codeRestore) error {
	ref := object.Ref{Kind: object.KindOf(object.ConfigMaps), Namespace: one.Namespace, Name: one.Name}
	if one.now == nil {
		return r.createCode(ctx, ref, one.Data)
	}
	err := r.patchJSON(ctx, ref, []patchOperation{
		{"test", "/metadata/uid", one.now.Metadata.UID}, {"test", "/metadata/resourceVersion", one.now.Metadata.ResourceVersion}, {"add", "/data", one.Data},
	})
	if err == nil {
		fmt.Fprintf(r.stdout, "ConfigMap %s/%s: code of that revision written: %s\n", ref.Namespace, ref.Name, clean(changedKeys(one.now.Data, one.Data)))
	}
	return err
}

func (r *rolloutRun) createCode(ctx context.Context, ref object.Ref, data map[string]string) error {
	body, err := json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"namespace": ref.Namespace, "name": ref.Name}, "data": data,
	})
	if err != nil {
		return err
	}
	if _, err := r.perms.api.Create(ctx, ref.Kind, ref.Namespace, body, userclient.WriteOptions{}); err != nil {
		return err
	}
	fmt.Fprintf(r.stdout, "ConfigMap %s/%s: created with the code of that revision\n", ref.Namespace, ref.Name)
	return nil
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
