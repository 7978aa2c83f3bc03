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

// tamperer deletes and changes children. Setpoint can repair all that it does: it never
// removes both owner and label, since Setpoint must not change such a child.
type tamperer struct {
	*soakRun
	rand *rand.Rand
}

func (s *soakRun) newTamperer() *tamperer {
	return &tamperer{soakRun: s, rand: newRand(s.seed, "vandal")}
}

func (v *tamperer) work(ctx context.Context) {
	for pause(ctx, time.Duration(50+v.rand.IntN(300))*time.Millisecond) == nil {
		victim := v.pick(ctx)
		if victim != nil {
			v.act(ctx, victim)
		}
	}
}

// pick picks one child of all.
func (v *tamperer) pick(ctx context.Context) *unstructured.Unstructured {
	kind := []string{"ConfigMap", "ConfigMap", "ConfigMap", "Secret"}[v.rand.IntN(4)]
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
	return children[v.rand.IntN(len(children))]
}

// ownerOf is the parent of ours that controls an object, or nil.
func ownerOf(o *unstructured.Unstructured) *metav1.OwnerReference {
	owner := metav1.GetControllerOf(o)
	if owner == nil || !strings.HasPrefix(owner.APIVersion, "soak.test/") {
		return nil
	}
	return owner
}

// lostLabel says that a child has lost the label it was watched by.
func lostLabel(child *unstructured.Unstructured) bool {
	return hasGeneratedSelector(child) && child.GetLabels()[uidLabel] == ""
}

// hasGeneratedSelector says that a child's parent has no selector of its own.
func hasGeneratedSelector(child *unstructured.Unstructured) bool {
	owner := strings.ToLower(ownerOf(child).Kind)
	return owner == plot || owner == shed
}

func (v *tamperer) act(ctx context.Context, victim *unstructured.Unstructured) {
	owner := strings.ToLower(ownerOf(victim).Kind)
	switch n := v.rand.IntN(100); {
	case n < 35 && owner != barn: // Of barns, a child that is deleted is one that a version has deleted.
		collection := v.cluster.in(resourceOf("v1", victim.GetKind()))
		v.cluster.noteRequest("another client deletes a child", collection.Delete(ctx, victim.GetName(), metav1.DeleteOptions{}))
	case n < 60:
		_ = unstructured.SetNestedField(victim.Object, "dmFuZGFs", "data", "value") // base64, for Secrets
		v.update(ctx, "another client edits a child", victim)
	case n < 70:
		_ = unstructured.SetNestedField(victim.Object, "bW9yZQ==", "data", "more")
		v.update(ctx, "another client adds to a child", victim)
	case n < 80:
		v.annotate(ctx, victim)
	case n < 90 && hasGeneratedSelector(victim):
		unstructured.RemoveNestedField(victim.Object, "metadata", "labels", uidLabel)
		v.update(ctx, "another client takes the label from a child", victim)
	case owner != lamp && owner != bell && (!hasGeneratedSelector(victim) || victim.GetLabels()[uidLabel] != ""):
		victim.SetOwnerReferences(nil)
		v.ledger.update(func(l *expectations) { l.unowned[string(victim.GetUID())] = true })
		v.update(ctx, "another client takes the owner from a child", victim)
	}
}

// update fails when the child has changed meanwhile.
func (v *tamperer) update(ctx context.Context, what string, victim *unstructured.Unstructured) {
	_, err := v.cluster.in(resourceOf("v1", victim.GetKind())).Update(ctx, victim, metav1.UpdateOptions{})
	v.cluster.noteRequest(what, err)
}

// annotate sets an annotation that Setpoint must not remove.
func (v *tamperer) annotate(ctx context.Context, victim *unstructured.Unstructured) {
	note, uid := fmt.Sprint(v.rand.Uint32()), string(victim.GetUID())
	_ = unstructured.SetNestedField(victim.Object, note, "metadata", "annotations", "note")
	stored, err := v.cluster.in(resourceOf("v1", victim.GetKind())).Update(ctx, victim, metav1.UpdateOptions{})
	v.ledger.update(func(l *expectations) {
		delete(l.notes, uid) // unknown if the response is lost
		if err == nil {
			l.notes[string(stored.GetUID())] = note
		}
	})
	v.cluster.noteRequest("another client annotates a child", err)
}
