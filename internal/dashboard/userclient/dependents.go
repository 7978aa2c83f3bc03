package userclient

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/setpoint-dev/setpoint/internal/dashboard/model"
)

// Dependent is an object that names another as an owner.
type Dependent struct {
	model.Ref
	Created  time.Time
	Deleting bool
	// Object is all of it, of workloads and pods only; nil where it may not be read.
	Object json.RawMessage
	// Dependents are its own, of workloads only.
	Dependents []Dependent
}

// BuiltinChildKinds are the kinds that the controllers of Kubernetes make of objects of another.
func BuiltinChildKinds(kind model.Kind) []model.Kind {
	switch kind.Kind + "." + kind.Group {
	case "Deployment.apps":
		return []model.Kind{{Group: "apps", Version: "v1", Plural: "replicasets", Kind: "ReplicaSet", Namespaced: true}}
	case "CronJob.batch":
		return []model.Kind{{Group: "batch", Version: "v1", Plural: "jobs", Kind: "Job", Namespaced: true}}
	case "ReplicaSet.apps", "StatefulSet.apps", "DaemonSet.apps", "Job.batch", "ReplicationController.":
		return []model.Kind{podKind}
	}
	return nil
}

var podKind = model.Kind{Version: "v1", Plural: "pods", Kind: "Pod", Namespaced: true}

// How many objects are read whole for one answer, and how many generations are shown.
const (
	maxFullReads  = 200
	maxOwnerDepth = 8
)

// Dependents are the objects of some kinds that name an object as an owner, and what
// those of them that are workloads made in turn. Kinds that the user may not list are
// left out, and named by the error; the others are returned with it.
func (c *Client) Dependents(ctx context.Context, ref model.Ref, kinds []model.Kind) ([]Dependent, error) {
	if ref.UID == "" {
		return nil, fmt.Errorf("dependents of %s: its UID is not known: %w", describe(ref.Kind, ref.Namespace, ref.Name), model.ErrNotFound)
	}
	d := &dependentWalk{OwnerIndex: c.NewOwnerIndex(maxFullReads), namespace: ref.Namespace, seen: map[string]bool{ref.UID: true}}
	for _, kind := range slices.Concat(kinds, BuiltinChildKinds(ref.Kind)) {
		d.list(ctx, kind, ref.Namespace)
	}
	found := d.collect(ctx, ref.UID, maxOwnerDepth)
	d.Read(ctx, flatten(found, nil))
	errs := []error{ctx.Err()}
	for _, u := range d.ListErrors() {
		errs = append(errs, u)
	}
	return found, errors.Join(errs...)
}

// dependentWalk is a Family in the order of its generations.
type dependentWalk struct {
	*OwnerIndex
	namespace string
	// seen are those that are part of the answer. Nothing keeps objects from owning each
	// other in a circle: none is followed twice.
	seen map[string]bool
}

// collect are the dependents of an owner that are not shown yet, and theirs, for some
// generations.
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

// flatten are dependents of all generations, added to others.
func flatten(found []Dependent, to []*Dependent) []*Dependent {
	for i := range found {
		to = flatten(found[i].Dependents, append(to, &found[i]))
	}
	return to
}
