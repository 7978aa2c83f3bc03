package soak

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// uidLabel is on the children of parents without a selector.
const uidLabel = "controller-uid"

// vandal deletes and spoils children. Whatever it does can be mended: a child
// without owner and label is nobody's, and nobody may mend it.
type vandal struct {
	*story
	dice *rand.Rand
}

func (s *story) newVandal() *vandal { return &vandal{story: s, dice: dice(s.seed, "vandal")} }

func (v *vandal) work(ctx context.Context) {
	for pause(ctx, time.Duration(50+v.dice.IntN(300))*time.Millisecond) == nil {
		victim := v.draw(ctx)
		if victim != nil {
			v.act(ctx, victim)
		}
	}
}

// draw picks one child of all.
func (v *vandal) draw(ctx context.Context) *unstructured.Unstructured {
	kind := []string{"ConfigMap", "ConfigMap", "ConfigMap", "Secret"}[v.dice.IntN(4)]
	list, err := v.cluster.in(resourceOf("v1", kind)).List(ctx, metav1.ListOptions{})
	if err != nil {
		v.cluster.noteRequest("", err)
		return nil
	}
	var children []*unstructured.Unstructured
	for i := range list.Items {
		if ownerOf(&list.Items[i]) != nil {
			children = append(children, &list.Items[i])
		}
	}
	if len(children) == 0 {
		return nil
	}
	return children[v.dice.IntN(len(children))]
}

// ownerOf is the parent of ours that controls an object, or nil.
func ownerOf(o *unstructured.Unstructured) *metav1.OwnerReference {
	owner := metav1.GetControllerOf(o)
	if owner == nil || !strings.HasPrefix(owner.APIVersion, "soak.test/") {
		return nil
	}
	return owner
}

// unmarked says that a child has lost the label it was watched by.
func unmarked(child *unstructured.Unstructured) bool {
	return generated(child) && child.GetLabels()[uidLabel] == ""
}

// generated says that a child's parent has no selector of its own.
func generated(child *unstructured.Unstructured) bool {
	owner := strings.ToLower(ownerOf(child).Kind)
	return owner == plot || owner == shed
}

func (v *vandal) act(ctx context.Context, victim *unstructured.Unstructured) {
	owner := strings.ToLower(ownerOf(victim).Kind)
	switch luck := v.dice.IntN(100); {
	case luck < 35:
		collection := v.cluster.in(resourceOf("v1", victim.GetKind()))
		v.cluster.noteRequest("another client deletes a child", collection.Delete(ctx, victim.GetName(), metav1.DeleteOptions{}))
	case luck < 60:
		_ = unstructured.SetNestedField(victim.Object, "dmFuZGFs", "data", "value") // base64, for Secrets
		v.update(ctx, "another client edits a child", victim)
	case luck < 70:
		_ = unstructured.SetNestedField(victim.Object, "bW9yZQ==", "data", "more")
		v.update(ctx, "another client adds to a child", victim)
	case luck < 80:
		v.annotate(ctx, victim)
	case luck < 90 && generated(victim):
		unstructured.RemoveNestedField(victim.Object, "metadata", "labels", uidLabel)
		v.update(ctx, "another client takes the label from a child", victim)
	case owner != lamp && owner != bell && (!generated(victim) || victim.GetLabels()[uidLabel] != ""):
		victim.SetOwnerReferences(nil)
		v.ledger.write(func(l *ledger) { l.freed[string(victim.GetUID())] = true })
		v.update(ctx, "another client takes the owner from a child", victim)
	}
}

// update fails when the child has changed meanwhile.
func (v *vandal) update(ctx context.Context, what string, victim *unstructured.Unstructured) {
	_, err := v.cluster.in(resourceOf("v1", victim.GetKind())).Update(ctx, victim, metav1.UpdateOptions{})
	v.cluster.noteRequest(what, err)
}

// annotate leaves a note that nobody may remove.
func (v *vandal) annotate(ctx context.Context, victim *unstructured.Unstructured) {
	note, uid := fmt.Sprint(v.dice.Uint32()), string(victim.GetUID())
	_ = unstructured.SetNestedField(victim.Object, note, "metadata", "annotations", "note")
	stored, err := v.cluster.in(resourceOf("v1", victim.GetKind())).Update(ctx, victim, metav1.UpdateOptions{})
	v.ledger.write(func(l *ledger) {
		delete(l.notes, uid) // should the answer be lost, nobody knows
		if err == nil {
			l.notes[string(stored.GetUID())] = note
		}
	})
	v.cluster.noteRequest("another client annotates a child", err)
}
