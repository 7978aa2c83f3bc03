package userclient

import (
	"cmp"
	"context"
	"slices"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// OwnerIndex finds owned objects. It lists each kind once per namespace. It is for one
// goroutine.
type OwnerIndex struct {
	client  *Client
	listed  map[listScope]bool
	byOwner map[string][]Dependent
	// listErrors are the failed lists.
	listErrors []*ListError
	// reads is how many objects may still be read in full.
	reads int
}

// listScope is a kind in a namespace.
type listScope struct {
	object.Kind
	namespace string
}

// ListError is a failed list.
type ListError struct {
	object.Kind
	Namespace string
	Err       error
}

// Error returns the error of the request.
func (u *ListError) Error() string { return u.Err.Error() }

// Unwrap returns the error of the request.
func (u *ListError) Unwrap() error { return u.Err }

// NewOwnerIndex returns an OwnerIndex that reads at most so many objects in full.
func (c *Client) NewOwnerIndex(reads int) *OwnerIndex {
	return &OwnerIndex{client: c, listed: map[listScope]bool{}, byOwner: map[string][]Dependent{}, reads: reads}
}

// ListErrors returns the failed lists so far.
func (f *OwnerIndex) ListErrors() []*ListError { return f.listErrors }

// Children returns the owned objects of the builtin child kinds and of more kinds, sorted.
func (f *OwnerIndex) Children(ctx context.Context, owner object.Ref, more ...object.Kind) []Dependent {
	for _, kind := range slices.Concat(BuiltinChildKinds(owner.Kind), more) {
		f.list(ctx, kind, owner.Namespace)
	}
	return f.owned(owner.UID)
}

// owned returns the listed objects of an owner.
func (f *OwnerIndex) owned(owner string) []Dependent {
	found := slices.Clone(f.byOwner[owner])
	slices.SortFunc(found, func(a, b Dependent) int {
		return cmp.Or(cmp.Compare(a.Kind.Kind, b.Kind.Kind), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return found
}

// list lists a kind once in a namespace, or in all. Namespaced objects own nothing outside of
// their namespace.
func (f *OwnerIndex) list(ctx context.Context, kind object.Kind, namespace string) {
	at := listScope{kind, namespace}
	if f.listed[at] || namespace != "" && !kind.Namespaced {
		return
	}
	f.listed[at] = true
	err := f.client.EachMetadata(ctx, kind, namespace, "", func(o *metav1.PartialObjectMetadata) { f.add(kind, o) })
	if err != nil {
		f.listErrors = append(f.listErrors, &ListError{kind, namespace, err})
	}
}

func (f *OwnerIndex) add(kind object.Kind, o *metav1.PartialObjectMetadata) {
	for i := range o.OwnerReferences {
		by := &o.OwnerReferences[i]
		f.byOwner[string(by.UID)] = append(f.byOwner[string(by.UID)], Dependent{
			Ref:     object.Ref{Kind: kind, Namespace: o.Namespace, Name: o.Name, UID: string(o.UID)},
			Created: o.CreationTimestamp.Time, Deleting: o.DeletionTimestamp != nil,
		})
	}
}

// Read reads workloads and pods in full, since their health depends on their status. Objects
// that cannot be read stay as they are. It returns how many were skipped because of the limit.
func (f *OwnerIndex) Read(ctx context.Context, all []*Dependent) (left int) {
	wanted := lists.Filter(all, func(d *Dependent) bool { return len(BuiltinChildKinds(d.Kind)) > 0 || d.Kind == podKind })
	now := wanted[:min(len(wanted), f.reads)]
	f.reads -= len(now)
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(8)
	for _, d := range now {
		group.Go(func() error {
			d.Object, _ = f.client.Get(ctx, d.Kind, d.Namespace, d.Name)
			return nil
		})
	}
	_ = group.Wait() // None of them fails.
	return len(wanted) - len(now)
}
