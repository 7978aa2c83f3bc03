package userclient

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// Dependent is an object with an owner reference.
type Dependent struct {
	object.Ref
	Created  time.Time
	Deleting bool
	// Object is its JSON, for workloads and pods only; nil if the user may not read it.
	Object json.RawMessage
	// Dependents are its own dependents, for workloads only.
	Dependents []Dependent
}

// BuiltinChildKinds returns the kinds that the controllers of Kubernetes create for a kind.
func BuiltinChildKinds(kind object.Kind) []object.Kind {
	switch kind.Kind + "." + kind.Group {
	case "Deployment.apps":
		return []object.Kind{{Group: "apps", Version: "v1", Plural: "replicasets", Kind: "ReplicaSet", Namespaced: true}}
	case "CronJob.batch":
		return []object.Kind{{Group: "batch", Version: "v1", Plural: "jobs", Kind: "Job", Namespaced: true}}
	case "ReplicaSet.apps", "StatefulSet.apps", "DaemonSet.apps", "Job.batch", "ReplicationController.":
		return []object.Kind{podKind}
	}
	return nil
}

var podKind = object.Kind{Version: "v1", Plural: "pods", Kind: "Pod", Namespaced: true}

// Limits of one call: objects read in full, and levels of owners.
const (
	maxFullReads  = 200
	maxOwnerDepth = 8
)

// Dependents returns the objects of some kinds that are owned by an object, and the objects of
// owned workloads. Kinds that the user may not list are in the error; the others are still
// returned.
func (c *Client) Dependents(ctx context.Context, ref object.Ref, kinds []object.Kind) ([]Dependent, error) {
	if ref.UID == "" {
		return nil, fmt.Errorf("find dependents of %s: unknown UID: %w", describe(ref.Kind, ref.Namespace, ref.Name), failure.ErrNotFound)
	}
	d := &dependentWalk{OwnerIndex: c.NewOwnerIndex(maxFullReads), namespace: ref.Namespace, seen: map[string]bool{ref.UID: true}}
	for _, kind := range slices.Concat(kinds, BuiltinChildKinds(ref.Kind)) {
		d.list(ctx, kind, ref.Namespace)
	}
	found := d.collect(ctx, ref.UID, maxOwnerDepth)
	d.Read(ctx, flatten(found, nil))
	errs := []error{ctx.Err()}
	errs = append(errs, lists.Map(d.ListErrors(), func(u *ListError) error { return u })...)
	return found, errors.Join(errs...)
}

// dependentWalk walks an OwnerIndex level by level.
type dependentWalk struct {
	*OwnerIndex
	namespace string
	// seen prevents cycles of owners.
	seen map[string]bool
}

// collect returns the unseen dependents of an owner, recursively.
func (d *dependentWalk) collect(ctx context.Context, owner string, generations int) []Dependent {
	if generations == 0 || ctx.Err() != nil {
		return nil
	}
	found := slices.DeleteFunc(d.owned(owner), func(o Dependent) bool {
		was := d.seen[o.UID]
		d.seen[o.UID] = true
		return was
	})
	for i := range found {
		made := BuiltinChildKinds(found[i].Kind)
		for _, kind := range made {
			d.list(ctx, kind, d.namespace)
		}
		if len(made) > 0 {
			found[i].Dependents = d.collect(ctx, found[i].UID, generations-1)
		}
	}
	return found
}

// flatten appends all levels of dependents to a list.
func flatten(found []Dependent, to []*Dependent) []*Dependent {
	for i := range found {
		to = flatten(found[i].Dependents, append(to, &found[i]))
	}
	return to
}
