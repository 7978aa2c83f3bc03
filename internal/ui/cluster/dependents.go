package cluster

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

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
	root := types.UID(ref.UID)
	f := &family{
		client: c, namespace: ref.Namespace, lists: map[inspect.Kind][]metav1.PartialObjectMetadata{},
		shown: map[types.UID]bool{root: true},
	}
	for _, kind := range slices.Concat(kinds, MadeOf(ref.Kind)) {
		f.list(ctx, kind)
	}
	found := f.of(ctx, root, maxGenerations)
	f.readAll(ctx, found)
	return found, f.err
}

// family is what was listed so far, each kind once.
type family struct {
	client    *Client
	namespace string
	lists     map[inspect.Kind][]metav1.PartialObjectMetadata
	// shown are those that are part of the answer. Nothing keeps objects from owning each
	// other in a circle: none is followed twice.
	shown map[types.UID]bool
	err   error
}

// list lists a kind once. Objects without a namespace own such in any.
func (f *family) list(ctx context.Context, kind inspect.Kind) {
	if _, done := f.lists[kind]; done || f.namespace != "" && !kind.Namespaced {
		return
	}
	f.lists[kind] = nil
	err := f.client.eachMeta(ctx, kind, f.namespace, func(o *metav1.PartialObjectMetadata) {
		if len(o.OwnerReferences) == 0 {
			return
		}
		// Most of what an object says of itself is not shown here, and there may be many.
		o.ManagedFields, o.Annotations, o.Labels = nil, nil, nil
		f.lists[kind] = append(f.lists[kind], *o)
	})
	f.err = cmp.Or(f.err, err)
}

// of are the dependents of an owner, and theirs, for some generations.
func (f *family) of(ctx context.Context, owner types.UID, generations int) []Dependent {
	if generations == 0 || ctx.Err() != nil {
		f.err = cmp.Or(f.err, ctx.Err())
		return nil
	}
	found := f.children(owner)
	for i := range found {
		made := MadeOf(found[i].Kind)
		for _, kind := range made {
			f.list(ctx, kind)
		}
		if len(made) > 0 {
			found[i].Dependents = f.of(ctx, types.UID(found[i].UID), generations-1)
		}
	}
	return found
}

// children are those of an owner that are not shown yet, in their order.
func (f *family) children(owner types.UID) []Dependent {
	var found []Dependent
	for kind, list := range f.lists {
		for i := range list {
			d, ok := dependent(kind, &list[i], owner)
			if uid := types.UID(d.UID); ok && !f.shown[uid] {
				f.shown[uid] = true
				found = append(found, d)
			}
		}
	}
	slices.SortFunc(found, func(a, b Dependent) int {
		return cmp.Or(cmp.Compare(a.Kind.Kind, b.Kind.Kind), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return found
}

func dependent(kind inspect.Kind, o *metav1.PartialObjectMetadata, owner types.UID) (Dependent, bool) {
	if !slices.ContainsFunc(o.OwnerReferences, func(r metav1.OwnerReference) bool { return r.UID == owner }) {
		return Dependent{}, false
	}
	return Dependent{
		Ref:     inspect.Ref{Kind: kind, Namespace: o.Namespace, Name: o.Name, UID: string(o.UID)},
		Created: o.CreationTimestamp.Time, Deleting: o.DeletionTimestamp != nil,
	}, true
}

// readAll reads those whole whose health is told by more than that they are there.
func (f *family) readAll(ctx context.Context, found []Dependent) {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(8)
	left := maxRead
	f.readEach(found, func(d *Dependent) {
		left--
		if left < 0 {
			return
		}
		group.Go(func() error {
			// One that is gone by now, or may not be read, is shown without its health.
			d.Object, _ = f.client.Get(ctx, d.Kind, d.Namespace, d.Name)
			return nil
		})
	})
	_ = group.Wait() // None of them fails.
}

func (f *family) readEach(found []Dependent, read func(d *Dependent)) {
	for i := range found {
		d := &found[i]
		if len(MadeOf(d.Kind)) > 0 || d.Kind == podKind {
			read(d)
		}
		f.readEach(d.Dependents, read)
	}
}
