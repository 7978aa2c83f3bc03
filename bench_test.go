package setpoint

import (
	"context"
	"encoding/json"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-dev/setpoint/hook"
)

// BenchmarkHandle is what a handler costs beside what it does itself: one that
// applies an object and changes the status.
func BenchmarkHandle(b *testing.B) {
	app := New("app")
	pods := For[corev1.Pod](app)
	pods.Owns(&corev1.ConfigMap{})
	pods.OnCreate(func(_ context.Context, c *Call[corev1.Pod]) error {
		c.Apply(&corev1.ConfigMap{Data: map[string]string{"rate": "1.1"}})
		c.Object.Status.Message = "published"
		return nil
	}, Name("publish"))
	h, err := app.Handler("publish")
	if err != nil {
		b.Fatal(err)
	}
	o, err := json.Marshal(&corev1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "shop", UID: "1", Labels: map[string]string{"app": "web"}},
		Spec:       corev1.PodSpec{NodeName: "one", Containers: []corev1.Container{{Name: "web", Image: "web:1"}}},
		Status:     corev1.PodStatus{Phase: corev1.PodRunning, PodIP: "10.0.0.1"},
	})
	if err != nil {
		b.Fatal(err)
	}
	notice := &hook.Notice{Handler: "publish", Reason: Create, Object: o, Namespace: "shop", Name: "web"}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := h.Handle(b.Context(), notice); err != nil {
			b.Fatal(err)
		}
	}
}
