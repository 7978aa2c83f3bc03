package kinds

import (
	"fmt"
	"hash/fnv"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// setDefaults sets the defaults of built-in kinds that controllers read: numbers of pods, types, and keys of lists.
// All others would only make states larger: Setpoint compares what it set.
func setDefaults(o runtime.Object) {
	switch o := o.(type) {
	case *corev1.Secret:
		defaultSecret(o)
	case *corev1.Service:
		defaultService(&o.Spec)
	case *corev1.Pod:
		orDefault(&o.Spec.RestartPolicy, corev1.RestartPolicyAlways)
		defaultPointer(&o.Spec.TerminationGracePeriodSeconds, corev1.DefaultTerminationGracePeriodSeconds)
		defaultPorts(&o.Spec)
	case *appsv1.Deployment:
		defaultPointer(&o.Spec.Replicas, 1)
		defaultPorts(&o.Spec.Template.Spec)
	case *appsv1.ReplicaSet:
		defaultPointer(&o.Spec.Replicas, 1)
		defaultPorts(&o.Spec.Template.Spec)
	case *appsv1.StatefulSet:
		defaultPointer(&o.Spec.Replicas, 1)
		defaultPorts(&o.Spec.Template.Spec)
	case *appsv1.DaemonSet:
		defaultPorts(&o.Spec.Template.Spec)
	case *batchv1.Job:
		defaultJob(&o.Spec)
	case *networkingv1.NetworkPolicy:
		defaultPolicy(&o.Spec)
	}
}

// orDefault sets a value that is zero.
func orDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

func defaultPointer[T any](field **T, value T) {
	if *field == nil {
		*field = &value
	}
}

// defaultSecret also moves texts to the data, as the API server does.
func defaultSecret(s *corev1.Secret) {
	orDefault(&s.Type, corev1.SecretTypeOpaque)
	if len(s.StringData) > 0 && s.Data == nil {
		s.Data = map[string][]byte{}
	}
	for key, value := range s.StringData {
		s.Data[key] = []byte(value)
	}
	s.StringData = nil
}

func defaultService(s *corev1.ServiceSpec) {
	orDefault(&s.Type, corev1.ServiceTypeClusterIP)
	for i := range s.Ports {
		port := &s.Ports[i]
		orDefault(&port.Protocol, corev1.ProtocolTCP)
		orDefault(&port.TargetPort, intstr.FromInt32(port.Port))
	}
}

// defaultPorts sets the protocol, which is part of the key of a port.
func defaultPorts(s *corev1.PodSpec) {
	for _, list := range [][]corev1.Container{s.InitContainers, s.Containers} {
		for i := range list {
			for j := range list[i].Ports {
				orDefault(&list[i].Ports[j].Protocol, corev1.ProtocolTCP)
			}
		}
	}
}

func defaultJob(s *batchv1.JobSpec) {
	if s.Completions == nil && s.Parallelism == nil {
		defaultPointer(&s.Completions, 1)
	}
	defaultPointer(&s.Parallelism, 1)
	defaultPointer(&s.BackoffLimit, 6)
	defaultPointer(&s.Suspend, false)
	defaultPorts(&s.Template.Spec)
}

func defaultPolicy(s *networkingv1.NetworkPolicySpec) {
	if len(s.PolicyTypes) > 0 {
		return
	}
	s.PolicyTypes = []networkingv1.PolicyType{networkingv1.PolicyTypeIngress}
	if len(s.Egress) > 0 {
		s.PolicyTypes = append(s.PolicyTypes, networkingv1.PolicyTypeEgress)
	}
}

// preparations are the values that the API server sets by itself and that controllers read.
func preparations() map[string]func(o, old *unstructured.Unstructured) {
	return map[string]func(o, old *unstructured.Unstructured){
		"Namespace":             prepareNamespace,
		"Pod":                   initialStatus("Pending"),
		"PersistentVolumeClaim": initialStatus("Pending"),
		"PersistentVolume":      initialStatus("Pending"),
		"Service":               prepareService,
		"Job.batch":             prepareJob,
	}
}

func prepareNamespace(o, old *unstructured.Unstructured) {
	if old != nil {
		// Only the subresource finalize changes the finalizers of a namespace.
		SetNested(o, Nested(old, "spec", "finalizers"), "spec", "finalizers")
		return
	}
	SetNested(o, []any{"kubernetes"}, "spec", "finalizers")
	SetNested(o, "Active", "status", "phase")
	labels := o.GetLabels()
	if labels == nil {
		labels = map[string]string{}
	}
	labels["kubernetes.io/metadata.name"] = o.GetName()
	o.SetLabels(labels)
}

func initialStatus(phase string) func(o, old *unstructured.Unstructured) {
	return func(o, old *unstructured.Unstructured) {
		if old == nil {
			o.Object["status"] = map[string]any{"phase": phase}
		}
	}
}

// prepareService gives a service the IP that its name stands for, which it keeps.
func prepareService(o, old *unstructured.Unstructured) {
	if serviceType := Nested(o, "spec", "type"); serviceType == "ExternalName" || Nested(o, "spec", "clusterIP") != nil {
		return
	}
	if old != nil {
		for _, name := range []string{"clusterIP", "clusterIPs"} {
			SetNested(o, Nested(old, "spec", name), "spec", name)
		}
		return
	}
	sum := fnv.New32a()
	sum.Write([]byte(o.GetNamespace() + "/" + o.GetName()))
	ip := fmt.Sprintf("10.96.%d.%d", byte(sum.Sum32()>>8), byte(sum.Sum32()))
	SetNested(o, ip, "spec", "clusterIP")
	SetNested(o, []any{ip}, "spec", "clusterIPs")
}

// prepareJob makes the selector of a job.
func prepareJob(o, old *unstructured.Unstructured) {
	if old != nil || Nested(o, "spec", "manualSelector") == true {
		return
	}
	uid := string(o.GetUID())
	for name, value := range map[string]string{
		"controller-uid": uid, "batch.kubernetes.io/controller-uid": uid,
		"job-name": o.GetName(), "batch.kubernetes.io/job-name": o.GetName(),
	} {
		SetNested(o, value, "spec", "template", "metadata", "labels", name)
	}
	SetNested(o, map[string]any{"batch.kubernetes.io/controller-uid": uid}, "spec", "selector", "matchLabels")
}
