package apiserver

import (
	"fmt"
	"hash/fnv"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/setpoint-dev/setpoint/internal/object"
)

// rulesOf returns the rules of a built-in kind.
func rulesOf(resource object.Resource) rules {
	name := fullName(resource)
	is := func(names string) bool { return slices.Contains(strings.Fields(names), name) }
	r := rules{
		generation: is(`Pod PodTemplate Deployment.apps StatefulSet.apps DaemonSet.apps ReplicaSet.apps Job.batch CronJob.batch
			PodDisruptionBudget.policy Ingress.networking.k8s.io IngressClass.networking.k8s.io NetworkPolicy.networking.k8s.io
			PriorityClass.scheduling.k8s.io EndpointSlice.discovery.k8s.io
			MutatingWebhookConfiguration.admissionregistration.k8s.io ValidatingWebhookConfiguration.admissionregistration.k8s.io
			ValidatingAdmissionPolicy.admissionregistration.k8s.io ValidatingAdmissionPolicyBinding.admissionregistration.k8s.io`),
		conditional: is(`PodDisruptionBudget.policy Lease.coordination.k8s.io RuntimeClass.node.k8s.io CSIDriver.storage.k8s.io CSINode.storage.k8s.io
			MutatingWebhookConfiguration.admissionregistration.k8s.io ValidatingWebhookConfiguration.admissionregistration.k8s.io
			ValidatingAdmissionPolicy.admissionregistration.k8s.io ValidatingAdmissionPolicyBinding.admissionregistration.k8s.io`),
		createOnUpdate: is(`RuntimeClass.node.k8s.io Role.rbac.authorization.k8s.io ClusterRole.rbac.authorization.k8s.io
			RoleBinding.rbac.authorization.k8s.io ClusterRoleBinding.rbac.authorization.k8s.io Lease.coordination.k8s.io LimitRange Event Service`),
		returnsDeleted: is(`Pod Service Namespace PersistentVolume PersistentVolumeClaim PodTemplate ResourceQuota ServiceAccount
			CSIDriver.storage.k8s.io CSINode.storage.k8s.io StorageClass.storage.k8s.io VolumeAttachment.storage.k8s.io`),
		orphans: is("Job.batch ReplicationController"),
		name:    validation.NameIsDNSSubdomain,
	}
	switch {
	case is("Namespace"):
		r.name = validation.NameIsDNSLabel
	case is("Service"):
		r.name = validation.NameIsDNS1035Label
	case resource.Group == "rbac.authorization.k8s.io":
		r.name = func(string, bool) []string { return nil }
	}
	r.prepare = preparations()[name]
	return r
}

// fullName returns such as "Pod" or "Deployment.apps".
func fullName(resource object.Resource) string {
	if resource.Group == "" {
		return resource.Kind
	}
	return resource.Kind + "." + resource.Group
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

// mutable are the fields that may change below a field; all others are immutable.
func mutable() map[string]map[string][]string {
	return map[string]map[string][]string{
		"StatefulSet.apps": {"spec": {"replicas", "ordinals", "template", "updateStrategy", "revisionHistoryLimit",
			"persistentVolumeClaimRetentionPolicy", "minReadySeconds"}},
		"PersistentVolumeClaim": {"spec": {"resources", "volumeAttributesClassName", "volumeName"}},
		"Pod":                   {"spec": {"containers", "initContainers", "activeDeadlineSeconds", "tolerations", "terminationGracePeriodSeconds", "schedulingGates"}},
	}
}

// immutable are the fields that may not change.
func immutable() map[string][]string {
	return map[string][]string{
		"Deployment.apps":                       {"spec.selector"},
		"ReplicaSet.apps":                       {"spec.selector"},
		"DaemonSet.apps":                        {"spec.selector"},
		"Job.batch":                             {"spec.selector", "spec.template", "spec.completionMode"},
		"Secret":                                {"type"},
		"RoleBinding.rbac.authorization.k8s.io": {"roleRef"},
		"ClusterRoleBinding.rbac.authorization.k8s.io": {"roleRef"},
	}
}

// immutableFields returns errors for fields that may not change.
func immutableFields(o, old *unstructured.Unstructured) field.ErrorList {
	name := fullNameOf(o)
	var errs field.ErrorList
	for _, path := range immutable()[name] {
		errs = append(errs, unchanged(o, old, strings.Split(path, ".")...)...)
	}
	for path, except := range mutable()[name] {
		for _, member := range memberNames(o, old, path) {
			if !slices.Contains(except, member) {
				errs = append(errs, unchanged(o, old, path, member)...)
			}
		}
	}
	switch name {
	case "Pod":
		errs = append(errs, onlyImagesChange(o, old)...)
	case "ConfigMap", "Secret":
		if nested(old, "immutable") == true {
			errs = slices.Concat(errs, unchanged(o, old, "data"), unchanged(o, old, "binaryData"), unchanged(o, old, "immutable"))
		}
	}
	return errs
}

func unchanged(o, old *unstructured.Unstructured, path ...string) field.ErrorList {
	if reflect.DeepEqual(nested(o, path...), nested(old, path...)) {
		return nil
	}
	return field.ErrorList{field.Invalid(field.NewPath(path[0], path[1:]...), nested(o, path...), "field is immutable")}
}

func memberNames(o, old *unstructured.Unstructured, path string) []string {
	var names []string
	for _, each := range []*unstructured.Unstructured{o, old} {
		members, _ := each.Object[path].(map[string]any)
		for name := range members {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// onlyImagesChange returns an error if the containers of a pod differ in more than their images.
func onlyImagesChange(o, old *unstructured.Unstructured) field.ErrorList {
	for _, list := range []string{"containers", "initContainers"} {
		if !reflect.DeepEqual(withoutImages(nested(o, "spec", list)), withoutImages(nested(old, "spec", list))) {
			return field.ErrorList{field.Forbidden(field.NewPath("spec"), "pod updates may not change fields other than the images of containers")}
		}
	}
	return nil
}

func withoutImages(list any) []any {
	containers, _ := list.([]any)
	without := make([]any, 0, len(containers))
	for _, container := range containers {
		members, _ := container.(map[string]any)
		rest := map[string]any{}
		for name, value := range members {
			if name != "image" {
				rest[name] = value
			}
		}
		without = append(without, rest)
	}
	return without
}

// qualifiedFinalizers returns errors for finalizers of built-in objects without a domain.
func qualifiedFinalizers(o *unstructured.Unstructured) field.ErrorList {
	var errs field.ErrorList
	for i, name := range o.GetFinalizers() {
		standard := name == metav1.FinalizerOrphanDependents || name == metav1.FinalizerDeleteDependents || name == "kubernetes"
		if !standard && !strings.Contains(name, "/") {
			errs = append(errs, field.Invalid(field.NewPath("metadata", "finalizers").Index(i), name, "name is neither a standard finalizer name nor is it fully qualified"))
		}
	}
	return errs
}

// requiredFields returns errors for missing fields, and for a selector that does not match the template.
func requiredFields(o *unstructured.Unstructured) field.ErrorList {
	switch fullNameOf(o) {
	case "Pod":
		return requiredContainers(o, "spec")
	case "PodTemplate":
		return requiredContainers(o, "template", "spec")
	case "Deployment.apps", "ReplicaSet.apps", "StatefulSet.apps", "DaemonSet.apps":
		return append(matchingSelector(o), requiredContainers(o, "spec", "template", "spec")...)
	case "Job.batch":
		return append(requiredContainers(o, "spec", "template", "spec"), finitePods(o)...)
	case "PersistentVolumeClaim":
		return append(required(o, "spec", "accessModes"), required(o, "spec", "resources", "requests", "storage")...)
	case "Service":
		if nested(o, "spec", "type") == "ExternalName" || nested(o, "spec", "clusterIP") == "None" {
			return nil
		}
		return required(o, "spec", "ports")
	case "CronJob.batch":
		return required(o, "spec", "schedule")
	}
	return nil
}

func required(o *unstructured.Unstructured, path ...string) field.ErrorList {
	switch value := nested(o, path...).(type) {
	case nil:
	case string:
		if value != "" {
			return nil
		}
	case []any:
		if len(value) > 0 {
			return nil
		}
	default:
		return nil
	}
	return field.ErrorList{field.Required(field.NewPath(path[0], path[1:]...), "")}
}

func requiredContainers(o *unstructured.Unstructured, path ...string) field.ErrorList {
	at := append(slices.Clone(path), "containers")
	errs := required(o, at...)
	containers, _ := nested(o, at...).([]any)
	for i, container := range containers {
		members, _ := container.(map[string]any)
		for _, name := range []string{"name", "image"} {
			if text, _ := members[name].(string); text == "" {
				errs = append(errs, field.Required(field.NewPath(at[0], at[1:]...).Index(i).Child(name), ""))
			}
		}
	}
	return errs
}

// matchingSelector returns an error unless the labels of the template match the selector.
func matchingSelector(o *unstructured.Unstructured) field.ErrorList {
	errs := required(o, "spec", "selector")
	wanted, _ := nested(o, "spec", "selector", "matchLabels").(map[string]any)
	labels, _ := nested(o, "spec", "template", "metadata", "labels").(map[string]any)
	for key, value := range wanted {
		if labels[key] != value {
			return append(errs, field.Invalid(field.NewPath("spec", "template", "metadata", "labels"), labels, "`selector` does not match template `labels`"))
		}
	}
	return errs
}

// finitePods returns an error unless the pods of a job may end.
func finitePods(o *unstructured.Unstructured) field.ErrorList {
	policy, _ := nested(o, "spec", "template", "spec", "restartPolicy").(string)
	if policy == "OnFailure" || policy == "Never" {
		return nil
	}
	return field.ErrorList{field.NotSupported(field.NewPath("spec", "template", "spec", "restartPolicy"), policy, []string{"OnFailure", "Never"})}
}

func fullNameOf(o *unstructured.Unstructured) string {
	return fullName(object.Resource{Group: o.GroupVersionKind().Group, Kind: o.GetKind()})
}

// nested returns the value at a path; nil if there is none.
func nested(o *unstructured.Unstructured, path ...string) any {
	value, _, _ := unstructured.NestedFieldNoCopy(o.Object, path...)
	return value
}

// setField sets the value at a path; nil removes it. A parent of another type has been refused before.
func setField(o *unstructured.Unstructured, value any, path ...string) {
	if value == nil {
		unstructured.RemoveNestedField(o.Object, path...)
		return
	}
	_ = unstructured.SetNestedField(o.Object, value, path...)
}
