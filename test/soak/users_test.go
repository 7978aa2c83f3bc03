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
	// mostChildren is what a parent wants at most.
	mostChildren = 6
)

// user makes, edits and deletes parents.
type user struct {
	*story
	dice *rand.Rand
}

func (s *story) newUser(who string) *user { return &user{story: s, dice: dice(s.seed, who)} }

// work goes on until ctx is done.
func (u *user) work(ctx context.Context) {
	for pause(ctx, time.Duration(20+u.dice.IntN(150))*time.Millisecond) == nil {
		u.act(ctx)
	}
}

func (u *user) act(ctx context.Context) {
	switch luck := u.dice.IntN(100); {
	case luck < 25:
		u.create(ctx)
	case luck < 50:
		u.patch(ctx, "edits a parent", u.draw(), fmt.Sprintf(`{"spec":{"value":%q}}`, u.value()))
	case luck < 65:
		u.patch(ctx, "scales a parent", u.draw(), fmt.Sprintf(`{"spec":{"children":%d}}`, u.dice.IntN(mostChildren)))
	case luck < 80:
		u.delete(ctx, u.draw())
	case luck < 85:
		again := u.draw()
		u.delete(ctx, again)
		u.make(ctx, again)
	case luck < 95:
		u.patch(ctx, "lights or darkens a lamp", u.drawOf(lamp), fmt.Sprintf(`{"metadata":{"annotations":{"lit":%q}}}`, u.answer()))
	default:
		u.patch(ctx, "asks to reconcile", u.draw(), fmt.Sprintf(`{"metadata":{"annotations":{"setpoint.dev/reconcile-at":"%d"}}}`, u.dice.Uint32()))
	}
}

// name is one parent.
type name struct{ kind, name string }

func (n name) String() string { return n.kind + "s " + n.name }

func (u *user) draw() name { return u.drawOf(kinds()[u.dice.IntN(len(kinds()))]) }

func (u *user) drawOf(kind string) name {
	return name{kind, fmt.Sprintf("%s-%d", kind, u.dice.IntN(parentsOfKind))}
}

func (u *user) value() string { return fmt.Sprintf("v%08x", u.dice.Uint32()) }

func (u *user) answer() string { return []string{"yes", "no"}[u.dice.IntN(2)] }

func (u *user) create(ctx context.Context) { u.make(ctx, u.draw()) }

func (u *user) make(ctx context.Context, n name) {
	spec := map[string]any{"children": int64(u.dice.IntN(mostChildren)), "value": u.value()}
	if n.kind == bell && u.dice.IntN(10) == 0 {
		spec["value"] = forbidden
	}
	metadata := map[string]any{"name": n.name, "namespace": namespace}
	switch n.kind {
	case pot:
		spec["selector"] = map[string]any{"matchLabels": map[string]any{pot: n.name}}
	case lamp:
		metadata["annotations"] = map[string]any{"lit": u.answer()}
	}
	o := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "soak.test/v1", "kind": title(n.kind), "metadata": metadata, "spec": spec,
	}}
	_, err := u.cluster.in(parentsOf(n.kind)).Create(ctx, o, metav1.CreateOptions{})
	if err == nil {
		u.ledger.write(func(l *ledger) { l.kept[n.String()] = true })
	}
	u.cluster.noteRequest("a user makes a parent", err)
}

func (u *user) patch(ctx context.Context, what string, n name, patch string) {
	_, err := u.cluster.in(parentsOf(n.kind)).Patch(ctx, n.name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	u.cluster.noteRequest("a user "+what, err)
}

func (u *user) delete(ctx context.Context, n name) {
	u.ledger.write(func(l *ledger) { delete(l.kept, n.String()) })
	err := u.cluster.in(parentsOf(n.kind)).Delete(ctx, n.name, metav1.DeleteOptions{})
	u.cluster.noteRequest("a user deletes a parent", err)
}

// noteRequest counts what came of a request. That something is there already, or
// not any more, is nothing to count.
func (c *cluster) noteRequest(what string, err error) {
	switch {
	case err == nil:
		c.tally.note(what)
	case apierrors.IsNotFound(err), apierrors.IsAlreadyExists(err), apierrors.IsConflict(err):
	case strings.Contains(err.Error(), "denied the request"):
		c.tally.note("a review denies a request")
	case strings.Contains(err.Error(), "failed calling webhook"):
		c.tally.note("a request finds no one who reviews it")
	default:
		c.tally.note("a request finds no API server")
	}
}
