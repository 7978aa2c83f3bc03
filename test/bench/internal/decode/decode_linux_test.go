// Package decode compares how objects are decoded that a watch delivers: by Setpoint, which keeps the JSON and
// parses metadata, and by the serializers of client-go, as informers use them.
package decode

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/setpoint-dev/setpoint/internal/must"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/test/bench/internal/thing"
)

// metadata is that of an owned object, with managedFields as API servers send them.
func metadata() metav1.ObjectMeta {
	yes := true
	return metav1.ObjectMeta{
		Name: "settings-000001", Namespace: "town", UID: "0b6d7f5e-52c6-4b4b-8f0e-000000000001", ResourceVersion: "1001", Generation: 2,
		Labels: map[string]string{"app": "shop", "tier": "front"},
		OwnerReferences: []metav1.OwnerReference{{
			APIVersion: "example.org/v1", Kind: "Shop", Name: "shop-000001", UID: "7c1f9c6e-0d8b-4d39-9b0e-000000000001", Controller: &yes, BlockOwnerDeletion: &yes,
		}},
		ManagedFields: []metav1.ManagedFieldsEntry{{
			Manager: "setpoint", Operation: "Update", APIVersion: "v1", FieldsType: "FieldsV1",
			FieldsV1: metav1.NewFieldsV1(`{"f:metadata":{"f:labels":{".":{},"f:app":{},"f:tier":{}},"f:ownerReferences":{".":{}}},"f:data":{".":{},"f:text":{}}}`),
		}},
	}
}

func configMap() *corev1.ConfigMap {
	return &corev1.ConfigMap{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, ObjectMeta: metadata(),
		Data: map[string]string{"text": strings.Repeat("setpoint ", 80)},
	}
}

func pod() *corev1.Pod {
	variables := make([]corev1.EnvVar, 6)
	for i := range variables {
		variables[i] = corev1.EnvVar{Name: fmt.Sprint("VARIABLE_", i), Value: fmt.Sprint("value-", i)}
	}
	return &corev1.Pod{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}, ObjectMeta: metadata(),
		Spec: corev1.PodSpec{
			Containers: []corev1.Container{{
				Name: "web", Image: "registry.example.org/web:1.27", Env: variables, Ports: []corev1.ContainerPort{{ContainerPort: 8080, Protocol: "TCP"}},
			}},
			NodeName: "node-1", RestartPolicy: "Always",
		},
		Status: corev1.PodStatus{Phase: "Running", PodIP: "10.0.0.7", Conditions: []corev1.PodCondition{{Type: "Ready", Status: "True"}}},
	}
}

func customResource() *thing.Thing {
	return &thing.Thing{
		TypeMeta:   metav1.TypeMeta{APIVersion: thing.Group + "/" + thing.Version, Kind: thing.Kind},
		ObjectMeta: metadata(), Spec: thing.Spec{Value: strings.Repeat("v", 200), Children: 3}, Status: thing.Status{Ready: 3, Value: "one"},
	}
}

// decoder is a way to decode an object.
type decoder struct {
	name   string
	encode func(runtime.Object) ([]byte, error)
	decode func(data []byte) (any, error)
}

func decoders(types *runtime.Scheme) []decoder {
	asJSON := func(o runtime.Object) ([]byte, error) { return json.Marshal(o) }
	typed, binary := serializer.NewCodecFactory(types).UniversalDeserializer(), protobuf.NewSerializer(types, types)
	return []decoder{
		{"setpoint", asJSON, func(data []byte) (any, error) { return object.Parse(data) }},
		{"typed-json", asJSON, func(data []byte) (any, error) { o, _, err := typed.Decode(data, nil, nil); return o, err }},
		{"typed-protobuf", func(o runtime.Object) ([]byte, error) { return runtime.Encode(binary, o) },
			func(data []byte) (any, error) { o, _, err := binary.Decode(data, nil, nil); return o, err }},
		{"unstructured", asJSON, func(data []byte) (any, error) {
			o, _, err := unstructured.UnstructuredJSONScheme.Decode(data, nil, nil)
			return o, err
		}},
	}
}

// objects are those of the benchmark; custom resources have no protobuf.
func objects() map[string]runtime.Object {
	return map[string]runtime.Object{"ConfigMap": configMap(), "Pod": pod(), "CustomResource": customResource()}
}

func types(tb testing.TB) *runtime.Scheme {
	tb.Helper()
	all := runtime.NewScheme()
	must.Succeed(tb, scheme.AddToScheme(all))
	must.Succeed(tb, thing.AddToScheme(all))
	return all
}

// processorTime is that of the process, with garbage collection. Unlike time it does not depend on what else
// the machine does.
func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var used syscall.Rusage
	must.Succeed(b, syscall.Getrusage(syscall.RUSAGE_SELF, &used))
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// BenchmarkDecode has throughput by processor time and by the size of the JSON, also for protobuf.
func BenchmarkDecode(b *testing.B) {
	all := types(b)
	for _, name := range []string{"ConfigMap", "Pod", "CustomResource"} {
		o := objects()[name]
		text := must.Get(json.Marshal(o)).In(b)
		for _, by := range decoders(all) {
			if by.name == "typed-protobuf" && name == "CustomResource" {
				continue
			}
			b.Run(fmt.Sprintf("%s-%dB/%s", name, len(text), by.name), func(b *testing.B) {
				data := must.Get(by.encode(o)).In(b)
				b.ReportAllocs()
				before := processorTime(b)
				for b.Loop() {
					must.Get(by.decode(data)).In(b)
				}
				seconds := (processorTime(b) - before).Seconds()
				b.ReportMetric(float64(len(text))*float64(b.N)/1e6/seconds, "MB/CPU-s")
			})
		}
	}
}

// All decode the same object.
func TestDecodersAgree(t *testing.T) {
	for name, o := range objects() {
		for _, by := range decoders(types(t)) {
			if by.name == "typed-protobuf" && name == "CustomResource" {
				continue
			}
			data := must.Get(by.encode(o)).In(t)
			decoded, err := by.decode(data)
			if err != nil {
				t.Fatalf("%s, %s: %v", name, by.name, err)
			}
			if parsed, is := decoded.(*object.Object); is {
				if parsed.Name() != "settings-000001" || !bytes.Contains(data, []byte(parsed.UID())) || parsed.Version() != 1001 {
					t.Errorf("%s: %s", name, parsed.JSON())
				}
				continue
			}
			if m, is := decoded.(metav1.Object); !is || m.GetName() != "settings-000001" || m.GetResourceVersion() != "1001" || len(m.GetManagedFields()) != 1 {
				t.Errorf("%s, %s: %T", name, by.name, decoded)
			}
		}
	}
}
