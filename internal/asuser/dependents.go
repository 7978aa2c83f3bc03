package asuser

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/setpoint-dev/setpoint/internal/inspect"
)

// Dependent is an object that names another as an owner.
type Dependent struct {
	inspect.Ref
	Created  time.Time
	Deleting bool
	// Object is all of it, of workloads and pods only; nil where it may not be read.
	Object json.RawMessage
	// Dependents are its own, of workloads only.
	Dependents []Dependent
}

// MadeOf are the kinds that the controllers of Kubernetes make of objects of another.
func MadeOf(kind inspect.Kind) []inspect.Kind {
	switch kind.Kind + "." + kind.Group {
	case "Deployment.apps":
		return []inspect.Kind{{Group: "apps", Version: "v1", Plural: "replicasets", Kind: "ReplicaSet", Namespaced: true}}
	case "CronJob.batch":
		return []inspect.Kind{{Group: "batch", Version: "v1", Plural: "jobs", Kind: "Job", Namespaced: true}}
	case "ReplicaSet.apps", "StatefulSet.apps", "DaemonSet.apps", "Job.batch", "ReplicationController.":
		return []inspect.Kind{podKind}
	}
	return nil
}

var podKind = inspect.Kind{Version: "v1", Plural: "pods", Kind: "Pod", Namespaced: true}

// How many objects are read whole for one answer, and how many generations are shown.
const (
	maxRead        = 200
	maxGenerations = 8
)

// Dependents are the objects of some kinds that name an object as an owner, and what
// those of them that are workloads made in turn. Kinds that the user may not list are
// left out, and named by the error; the others are returned with it.
func (c *Client) Dependents(ctx context.Context, ref inspect.Ref, kinds []inspect.Kind) ([]Dependent, error) {
	if ref.UID == "" {
		return nil, fmt.Errorf("dependents of %s: its UID is not known: %w", words(ref.Kind, ref.Namespace, ref.Name), inspect.ErrNotFound)
	}
	d := &descent{Family: c.Family(maxRead), namespace: ref.Namespace, shown: map[string]bool{ref.UID: true}}
	for _, kind := range slices.Concat(kinds, MadeOf(ref.Kind)) {
		d.list(ctx, kind, ref.Namespace)
	}
	found := d.of(ctx, ref.UID, maxGenerations)
	d.Read(ctx, all(found, nil))
	errs := []error{ctx.Err()}
	for _, u := range d.Unlisted() {
		errs = append(errs, u)
	}
	return found, errors.Join(errs...)
}

// descent is a Family in the order of its generations.
type descent struct {
	*Family
	namespace string
	// shown are those that are part of the answer. Nothing keeps objects from owning each
	// other in a circle: none is followed twice.
	shown map[string]bool
}

// of are the dependents of an owner that are not shown yet, and theirs, for some
// generations.
func (d *descent) of(ctx context.Context, owner string, generations int) []Dependent {
	if generations == 0 || ctx.Err() != nil {
		return nil
	}
	found := slices.DeleteFunc(d.owned(owner), func(o Dependent) bool {
		was := d.shown[o.UID]
		d.shown[o.UID] = true
		return was
	})
	for i := range found {
		made := MadeOf(found[i].Kind)
		for _, kind := range made {
			d.list(ctx, kind, d.namespace)
		}
		if len(made) > 0 {
			found[i].Dependents = d.of(ctx, found[i].UID, generations-1)
		}
	}
	return found
}

// all are dependents of all generations, added to others.
func all(found []Dependent, to []*Dependent) []*Dependent {
	for i := range found {
		to = all(found[i].Dependents, append(to, &found[i]))
	}
	return to
}
