package soak

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

const (
	// firstParents are made before the faults begin, as many as chance has it.
	firstParents = 60
	// parentsOfKind is how many there are of a kind at most.
	parentsOfKind = 20
	// barnCount is how many barns there are at most, so that a small step has some of them.
	barnCount = 60
	// maxChildren is what a parent wants at most.
	maxChildren = 6
)

// user makes, edits and deletes parents.
type user struct {
	*soakRun
	rand *rand.Rand
}

func (s *soakRun) newUser(who string) *user { return &user{soakRun: s, rand: newRand(s.seed, who)} }

// work goes on until ctx is done.
func (u *user) work(ctx context.Context) {
	for pause(ctx, time.Duration(20+u.rand.IntN(150))*time.Millisecond) == nil {
		u.act(ctx)
	}
}

func (u *user) act(ctx context.Context) {
	switch n := u.rand.IntN(100); {
	case n < 25:
		u.create(ctx)
	case n < 50:
		u.edit(ctx, u.pick())
	case n < 65:
		u.scale(ctx, u.pick())
	case n < 80:
		u.delete(ctx, u.pick())
	case n < 85:
		again := u.pick()
		u.delete(ctx, again)
		u.make(ctx, again)
	case n < 95:
		u.patch(ctx, "lights or darkens a lamp", u.pickOf(lamp), fmt.Sprintf(`{"metadata":{"annotations":{"lit":%q}}}`, u.yesOrNo()))
	default:
		u.patch(ctx, "asks to reconcile", u.pick(), fmt.Sprintf(`{"metadata":{"annotations":{"setpoint.dev/reconcile-at":"%d"}}}`, u.rand.Uint32()))
	}
}

// edit edits a parent. Of a barn it leaves the spec alone: an edit of that would explain deletions of its children.
func (u *user) edit(ctx context.Context, n name) {
	patch := `{"spec":{"value":%q}}`
	if n.kind == barn {
		patch = `{"metadata":{"annotations":{"edited":%q}}}`
	}
	u.patch(ctx, "edits a parent", n, fmt.Sprintf(patch, u.value()))
}

// scale scales a parent, but no barn, whose children stay.
func (u *user) scale(ctx context.Context, n name) {
	if n.kind != barn {
		u.patch(ctx, "scales a parent", n, fmt.Sprintf(`{"spec":{"children":%d}}`, u.rand.IntN(maxChildren)))
	}
}

// name is one parent.
type name struct{ kind, name string }

func (n name) String() string { return n.kind + "s " + n.name }

func (u *user) pick() name { return u.pickOf(kinds()[u.rand.IntN(len(kinds()))]) }

func (u *user) pickOf(kind string) name {
	most := parentsOfKind
	if kind == barn {
		most = barnCount
	}
	return name{kind, fmt.Sprintf("%s-%d", kind, u.rand.IntN(most))}
}

func (u *user) value() string { return fmt.Sprintf("v%08x", u.rand.Uint32()) }

func (u *user) yesOrNo() string { return []string{"yes", "no"}[u.rand.IntN(2)] }

func (u *user) create(ctx context.Context) { u.make(ctx, u.pick()) }

func (u *user) make(ctx context.Context, n name) {
	spec := map[string]any{"children": int64(u.rand.IntN(maxChildren)), "value": u.value()}
	if n.kind == bell && u.rand.IntN(10) == 0 {
		spec["value"] = forbidden
	}
	metadata := map[string]any{"name": n.name, "namespace": namespace}
	switch n.kind {
	case barn:
		spec["children"] = int64(1 + u.rand.IntN(2)) // A version that leaves them out deletes some.
	case pot:
		spec["selector"] = map[string]any{"matchLabels": map[string]any{pot: n.name}}
	case lamp:
		metadata["annotations"] = map[string]any{"lit": u.yesOrNo()}
	}
	o := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "soak.test/v1", "kind": title(n.kind), "metadata": metadata, "spec": spec,
	}}
	_, err := u.cluster.in(parentsOf(n.kind)).Create(ctx, o, metav1.CreateOptions{})
	if err == nil {
		u.ledger.update(func(l *expectations) { l.parents[n.String()] = true })
	}
	u.cluster.noteRequest("a user makes a parent", err)
}

func (u *user) patch(ctx context.Context, what string, n name, patch string) {
	_, err := u.cluster.in(parentsOf(n.kind)).Patch(ctx, n.name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	u.cluster.noteRequest("a user "+what, err)
}

func (u *user) delete(ctx context.Context, n name) {
	u.ledger.update(func(l *expectations) { delete(l.parents, n.String()) })
	err := u.cluster.in(parentsOf(n.kind)).Delete(ctx, n.name, metav1.DeleteOptions{})
	u.cluster.noteRequest("a user deletes a parent", err)
}

// noteRequest counts what came of a request. That something is there already, or
// not any more, is nothing to count.
func (c *cluster) noteRequest(what string, err error) {
	switch {
	case err == nil:
		c.tally.add(what)
	case apierrors.IsNotFound(err), apierrors.IsAlreadyExists(err), apierrors.IsConflict(err):
	case strings.Contains(err.Error(), "denied the request"):
		c.tally.add("a review denies a request")
	case strings.Contains(err.Error(), "failed calling webhook"):
		c.tally.add("a request finds no one who reviews it")
	default:
		c.tally.add("a request finds no API server")
	}
}
