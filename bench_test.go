package setpoint

import (
	"context"
	"encoding/json"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/must"
	"github.com/setpoint-dev/setpoint/internal/sdk"
)

// BenchmarkHandle is what a handler costs beside what it does itself: one that
// applies an object and changes the status.
func BenchmarkHandle(b *testing.B) {
	app := New("app")
	pods := For[corev1.Pod](app)
	pods.Owns(&corev1.ConfigMap{})
	pods.Handle("publish", func(_ context.Context, c *Call[corev1.Pod]) error {
		c.Apply(&corev1.ConfigMap{Data: map[string]string{"rate": "1.1"}})
		c.Object.Status.Message = "published"
		return nil
	}).OnCreate()
	h := must.Get(sdk.Of(app).Handler("publish")).In(b)
	notice := &hook.HandlerRequest{Handler: "publish", Reason: ReasonCreate, Object: benchPod(b), Namespace: "shop", Name: "web"}
	b.ReportAllocs()
	for b.Loop() {
		must.Get(h.Handle(b.Context(), notice)).In(b)
	}
}

// BenchmarkSync is the same of a ComposeFunc that wants a child and reads those there
// are.
func BenchmarkSync(b *testing.B) {
	app := New("app")
	pods := Compose[corev1.Pod](app)
	pods.Owns(&corev1.ConfigMap{})
	pods.Sync(func(_ context.Context, f *ComposeContext[corev1.Pod]) error {
		f.Apply(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "web-rate"}, Data: map[string]string{"rate": "1.1"}})
		var observed []corev1.ConfigMap
		f.Children(&observed)
		f.Parent.Status.Message = "published"
		return nil
	})
	sync := must.Get(sdk.Of(app).Hook("sync")).In(b)
	child := json.RawMessage(`{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"web-rate","namespace":"shop","uid":"2","ownerReferences":[` +
		`{"apiVersion":"v1","kind":"Pod","name":"web","uid":"1","controller":true,"blockOwnerDeletion":true}]},"data":{"rate":"1.1"}}`)
	request := &hook.Request{Parent: benchPod(b), Children: []hook.Group{{APIVersion: "v1", Kind: "ConfigMap", Objects: []hook.Entry{{Name: "web-rate", Object: child}}}}}
	b.ReportAllocs()
	for b.Loop() {
		must.Get(sync.Call(b.Context(), request)).In(b)
	}
}

// benchPod is the object that both are about.
func benchPod(b *testing.B) json.RawMessage {
	b.Helper()
	return must.Get(json.Marshal(&corev1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "shop", UID: "1", Labels: map[string]string{"app": "web"}},
		Spec:       corev1.PodSpec{NodeName: "one", Containers: []corev1.Container{{Name: "web", Image: "web:1"}}},
		Status:     corev1.PodStatus{Phase: corev1.PodRunning, PodIP: "10.0.0.1"},
	})).In(b)
}
