package server

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/admission"
	"github.com/setpoint-dev/setpoint/internal/admission/patch"
	"github.com/setpoint-dev/setpoint/internal/must"
)

// podReview is the creation of a pod, in about 5 KB.
func podReview(tb testing.TB) []byte {
	tb.Helper()
	pod := corev1.Pod{}
	pod.APIVersion, pod.Kind, pod.Name, pod.Namespace = "v1", "Pod", "p", "default"
	pod.Labels, pod.Annotations = map[string]string{"app": "web"}, map[string]string{"note": strings.Repeat("é, \"quoted\" ", 40)}
	for i := range 3 {
		c := corev1.Container{Name: fmt.Sprint("c", i), Image: "registry.test/image:1", Command: []string{"sh", "-c", "sleep 1"}}
		for j := range 12 {
			c.Env = append(c.Env, corev1.EnvVar{Name: fmt.Sprint("NAME_", j), Value: strings.Repeat("v", 30)})
			c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: fmt.Sprint("v", j), MountPath: fmt.Sprint("/mnt/", j)})
		}
		pod.Spec.Containers = append(pod.Spec.Containers, c)
	}
	raw := must.Get(json.Marshal(pod)).In(tb)
	return reviewOf(`"operation":"CREATE","userInfo":{"username":"ann","groups":["devs","system:authenticated"]},"object":` + string(raw) + `,"oldObject":null,"dryRun":false`)
}

// inject does what a Go program does: it reads the object into a type, adds a
// container, and says what is different.
func inject(_ context.Context, r *hook.ReviewRequest) (*hook.ReviewResponse, error) {
	var pod corev1.Pod
	if err := json.Unmarshal(r.Object, &pod); err != nil {
		return nil, err
	}
	before, err := json.Marshal(&pod)
	if err != nil {
		return nil, err
	}
	pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: "sidecar", Image: "sidecar:1"})
	after, err := json.Marshal(&pod)
	if err != nil {
		return nil, err
	}
	object, err := patch.Rebase(r.Object, before, after)
	return &hook.ReviewResponse{Object: object}, err
}

// BenchmarkReview is the server's part alone, and with the reading and writing of a
// typed pod.
func BenchmarkReview(b *testing.B) {
	body := podReview(b)
	for name, do := range map[string]hook.AdmitterFunc{"allow": allow, "inject": inject} {
		b.Run(name, func(b *testing.B) {
			s := New(Options{})
			s.Set([]*admission.Program{programOf(do)})
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					r := httptest.NewRequest(http.MethodPost, "/admit/web/check?timeout=10s", bytes.NewReader(body))
					r.Header.Set("Content-Type", "application/json")
					w := httptest.NewRecorder()
					s.ServeHTTP(w, r)
					if w.Code != http.StatusOK {
						b.Fatal(w.Body)
					}
				}
			})
		})
	}
}

// BenchmarkDifference is what remains of a change once it is encoded.
func BenchmarkDifference(b *testing.B) {
	review := hookRequest(must.Get(decodeReview(podReview(b))).In(b))
	var pod corev1.Pod
	must.Succeed(b, json.Unmarshal(review.Object, &pod))
	before, _ := json.Marshal(&pod)
	pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: "sidecar"})
	after, _ := json.Marshal(&pod)
	b.ReportAllocs()
	for b.Loop() {
		changed := must.Get(patch.Rebase(review.Object, before, after)).In(b)
		must.Get(patch.For(review, &hook.ReviewResponse{Object: changed})).In(b)
	}
}
