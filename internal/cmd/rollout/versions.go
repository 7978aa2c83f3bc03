package rollout

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	setpoint "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/internal/cli/client"
	"github.com/setpoint-dev/setpoint/internal/cli/output"
	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/failure"
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
	var refs []object.Ref
	kind, namespace := object.KindOf(plan.ControllerRevisions), ""
	if s := r.controller.Status.Rollout; s != nil { // Without spec.rollout there is none, and the versions may be in any.
		namespace = s.Namespace
	}
	err := r.client.API.EachMetadata(ctx, kind, namespace, setpoint.LabelControllerUID+"="+r.controller.Metadata.UID,
		func(o *metav1.PartialObjectMetadata) {
			refs = append(refs, object.Ref{Kind: kind, Namespace: o.Namespace, Name: o.Name})
		})
	if err != nil {
		return nil, err
	}
	var all []logicRevision
	for _, ref := range refs {
		v, err := r.version(ctx, ref.Namespace, ref.Name)
		if err != nil {
			return nil, err
		}
		all = append(all, v)
	}
	switch {
	case len(all) > 0:
	case r.controller.Spec.Rollout == nil:
		return nil, r.noRollout()
	default:
		return nil, fmt.Errorf("%s has no versions yet", r.name)
	}
	slices.SortFunc(all, func(a, b logicRevision) int { return cmp.Compare(b.Revision, a.Revision) })
	return all, nil
}

// version reads one version.
func (r *rolloutRun) version(ctx context.Context, namespace, name string) (v logicRevision, err error) {
	err = r.read(ctx, plan.ControllerRevisions.Ref(namespace, name), &v)
	return v, err
}

func (r *rolloutRun) history(ctx context.Context) error {
	all, err := r.versions(ctx)
	if err != nil {
		return err
	}
	if r.Structured() {
		return r.PrintValue(r.Stdout, map[string]any{"items": all})
	}
	var rows []output.Row
	for _, v := range all {
		headers, cells := r.Columns(
			output.Column{Header: "REVISION", Cell: strconv.FormatInt(v.Revision, 10)},
			output.Column{Header: "NAME", Cell: v.Metadata.Name},
			output.Column{Header: "STATE", Cell: r.stateOf(v.Metadata.Name)},
			output.Column{Header: "AGE", Cell: output.Ago(v.Metadata.CreationTimestamp.Time, time.Now())},
		)
		rows = append(rows, output.Row{Headers: headers, Cells: cells, Key: v.Metadata.Name, Version: v.Metadata.Name})
	}
	return r.PrintRows(r.Stdout, r.Table(r.Stdout), rows)
}

// stateOf returns what a version is for the rollout.
func (r *rolloutRun) stateOf(name string) string {
	switch s := r.controller.Status.Rollout; {
	case s == nil:
		return ""
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

// inSpec reports whether a version is the one in the spec and in the ConfigMaps that have its code.
func (r *rolloutRun) inSpec(ctx context.Context, v *compile.VersionData) (bool, error) {
	now := compile.VersionData{Hooks: r.controller.Spec.Hooks, EndpointConfigs: r.controller.Spec.EndpointConfigs, ConfigMaps: v.ConfigMaps}
	if same, err := now.Equal(v); !same || err != nil {
		return false, err
	}
	now.ConfigMaps = nil // Equal hooks have their code in the same ConfigMaps.
	for _, then := range v.ConfigMaps {
		var code struct{ Data map[string]string }
		err := r.read(ctx, object.ConfigMaps.Ref(then.Namespace, then.Name), &code)
		if errors.Is(err, failure.ErrNotFound) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		now.ConfigMaps = append(now.ConfigMaps, compile.CodeConfigMap{Namespace: then.Namespace, Name: then.Name, Data: code.Data})
	}
	return now.Equal(v)
}

// read reads an object into a value. Its error is failure.ErrNotFound if there is none.
func (r *rolloutRun) read(ctx context.Context, ref object.Ref, into any) error {
	text, err := r.client.API.Get(ctx, ref.Kind, ref.Namespace, ref.Name)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, into); err != nil {
		return fmt.Errorf("read %s: %w", client.NameOf(ref), err)
	}
	return nil
}
