package soak

import (
	"context"
	"errors"
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// forbidden is a value that a review denies, and stamp the label that another adds.
const (
	forbidden  = "forbidden"
	stampLabel = "stamped"
)

// handle is what the three handlers of bells respond. The first has a ConfigMap, the
// second a field of the status beside the first one's, and the third lets go of a bell.
func (q *hookRequest) handle(known *expectations) map[string]any {
	p := q.Object
	switch q.Handler {
	case "ring":
		known.update(func(l *expectations) { l.rung[p.Metadata.UID] = true })
		return map[string]any{"status": map[string]any{"rung": p.Spec.Value}, "apply": objects(p, p.desiredChildren())}
	case "echo":
		return map[string]any{"status": map[string]any{"echo": p.Spec.Value}}
	}
	known.update(func(l *expectations) { l.dismissed[p.Metadata.UID] = true })
	return map[string]any{}
}

// review stamps each bell, and denies one with a forbidden value.
func (q *hookRequest) review() map[string]any {
	if q.Webhook == "stamp" {
		return map[string]any{"allowed": true, "patch": map[string]any{"metadata": map[string]any{"labels": map[string]any{stampLabel: "yes"}}}}
	}
	if q.Object.Spec.Value == forbidden {
		return map[string]any{"allowed": false, "message": "this value is forbidden"}
	}
	return map[string]any{"allowed": true}
}

// checkBell wants the latest value handled by both, and neither's write lost.
func (f *state) checkBell(who string, p *parent) {
	if v := p.Spec.Value; p.Status.Rung != v || p.Status.Echo != v {
		f.problem("%s has status %+v, want %q twice", who, p.Status, v)
	}
	if p.Metadata.Labels[stampLabel] != "yes" || p.Spec.Value == forbidden {
		f.problem("%s is stored without its reviews: labels %v, value %q", who, p.Metadata.Labels, p.Spec.Value)
	}
}

// checkBells wants every bell that is gone to have been dismissed before. The ledger is
// locked.
func (f *state) checkBells() {
	for uid := range f.ledger.rung {
		if f.parents[uid] == nil && !f.ledger.dismissed[uid] {
			f.problem("the bell with UID %s is gone, and its handler of deletions was not called with success", uid)
		}
	}
}

// awaitReviews waits until the API server asks for reviews: a bell that is stored before
// would be without them.
func (c *cluster) awaitReviews(t *testing.T) {
	t.Helper()
	probe := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "soak.test/v1", "kind": title(bell),
		"metadata": map[string]any{"generateName": "probe-", "namespace": namespace}, "spec": map[string]any{"value": forbidden},
	}}
	eventually(t, "reviews of bells", func(ctx context.Context) error {
		_, err := c.in(parentsOf(bell)).Create(ctx, probe.DeepCopy(), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err == nil {
			return errors.New("a forbidden bell is not denied")
		}
		stored, err := c.in(parentsOf(bell)).Create(ctx, allowed(probe), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err != nil || stored.GetLabels()[stampLabel] != "yes" {
			return fmt.Errorf("an allowed bell is not stamped: %w", err)
		}
		return nil
	})
}

func allowed(probe *unstructured.Unstructured) *unstructured.Unstructured {
	o := probe.DeepCopy()
	_ = unstructured.SetNestedField(o.Object, "a", "spec", "value")
	return o
}
