package ownertree

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-dev/setpoint/internal/dashboard/userclient"
	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// OwnerIndex finds owned objects by their owner references. It lists each kind once per
// namespace. It is for one goroutine.
type OwnerIndex struct {
	api     *userclient.Client
	listed  map[listScope]bool
	byOwner map[string][]*Node
	// ListErrors are the failed lists.
	ListErrors []*ListError
	// reads is how many objects may still be read in full.
	reads int
}

type listScope struct {
	object.Kind
	namespace string
}

// ListError is a failed list.
type ListError struct {
	object.Kind
	Namespace string
	error
}

// Unwrap returns the error of the request.
func (u *ListError) Unwrap() error { return u.error }

// NewOwnerIndex returns an OwnerIndex that reads at most so many objects in full.
func NewOwnerIndex(api *userclient.Client, reads int) *OwnerIndex {
	return &OwnerIndex{api: api, listed: map[listScope]bool{}, byOwner: map[string][]*Node{}, reads: reads}
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

// Children returns the owned objects of the builtin child kinds and of more kinds.
func (f *OwnerIndex) Children(ctx context.Context, owner object.Ref, more ...object.Kind) []*Node {
	for _, kind := range append(BuiltinChildKinds(owner.Kind), more...) {
		f.list(ctx, kind, owner.Namespace)
	}
	return f.byOwner[owner.UID]
}

// list lists a kind once in a namespace, or in all. Namespaced objects own nothing outside of their namespace.
func (f *OwnerIndex) list(ctx context.Context, kind object.Kind, namespace string) {
	at := listScope{kind, namespace}
	if f.listed[at] || namespace != "" && !kind.Namespaced {
		return
	}
	f.listed[at] = true
	err := f.api.EachMetadata(ctx, kind, namespace, "", func(o *metav1.PartialObjectMetadata) { f.add(kind, o) })
	if err != nil {
		f.ListErrors = append(f.ListErrors, &ListError{kind, namespace, err})
	}
}

func (f *OwnerIndex) add(kind object.Kind, o *metav1.PartialObjectMetadata) {
	ref := object.Ref{Kind: kind, Namespace: o.Namespace, Name: o.Name, UID: string(o.UID)}
	n := &Node{Child: inspect.Child{Ref: ref, Health: inspect.HealthUnknown, Created: o.CreationTimestamp.Time}}
	if o.DeletionTimestamp != nil {
		n.Health = inspect.HealthTerminating
	}
	for i := range o.OwnerReferences {
		by := string(o.OwnerReferences[i].UID)
		f.byOwner[by] = append(f.byOwner[by], n)
	}
}

// Read reads the health of workloads and pods, which depends on their status. Objects that
// cannot be read stay as they are. It returns how many were skipped because of the limit.
func (f *OwnerIndex) Read(ctx context.Context, all []*Node) (left int) {
	wanted := lists.Filter(all, func(n *Node) bool { return len(BuiltinChildKinds(n.Kind)) > 0 || n.Kind == podKind })
	now := wanted[:min(len(wanted), f.reads)]
	f.reads -= len(now)
	userclient.InParallel(len(now), func(i int) {
		data, _ := f.api.Get(ctx, now[i].Kind, now[i].Namespace, now[i].Name)
		if o, err := object.Parse(data); err == nil {
			now[i].Health, now[i].Message = inspect.HealthOf(o)
		}
	})
	return len(wanted) - len(now)
}
