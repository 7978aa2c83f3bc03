package apiserver

import (
	"fmt"
	"hash/fnv"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

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
		setField(o, nested(old, "spec", "finalizers"), "spec", "finalizers")
		return
	}
	setField(o, []any{"kubernetes"}, "spec", "finalizers")
	setField(o, "Active", "status", "phase")
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
	if serviceType := nested(o, "spec", "type"); serviceType == "ExternalName" || nested(o, "spec", "clusterIP") != nil {
		return
	}
	if old != nil {
		for _, name := range []string{"clusterIP", "clusterIPs"} {
			setField(o, nested(old, "spec", name), "spec", name)
		}
		return
	}
	sum := fnv.New32a()
	sum.Write([]byte(o.GetNamespace() + "/" + o.GetName()))
	ip := fmt.Sprintf("10.96.%d.%d", byte(sum.Sum32()>>8), byte(sum.Sum32()))
	setField(o, ip, "spec", "clusterIP")
	setField(o, []any{ip}, "spec", "clusterIPs")
}

// prepareJob makes the selector of a job.
func prepareJob(o, old *unstructured.Unstructured) {
	if old != nil || nested(o, "spec", "manualSelector") == true {
		return
	}
	uid := string(o.GetUID())
	for name, value := range map[string]string{
		"controller-uid": uid, "batch.kubernetes.io/controller-uid": uid,
		"job-name": o.GetName(), "batch.kubernetes.io/job-name": o.GetName(),
	} {
		setField(o, value, "spec", "template", "metadata", "labels", name)
	}
	setField(o, map[string]any{"batch.kubernetes.io/controller-uid": uid}, "spec", "selector", "matchLabels")
}
