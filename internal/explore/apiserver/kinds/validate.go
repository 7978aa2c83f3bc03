package kinds

import (
	"reflect"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/setpoint-dev/setpoint/internal/lists"
)

// qualifiedFinalizers returns errors for finalizers of built-in objects without a domain.
func qualifiedFinalizers(o *unstructured.Unstructured) field.ErrorList {
	var errs field.ErrorList
	for i, name := range o.GetFinalizers() {
		standard := name == metav1.FinalizerOrphanDependents || name == metav1.FinalizerDeleteDependents || name == "kubernetes"
		if !standard && !strings.Contains(name, "/") {
			errs = append(errs, field.Invalid(field.NewPath("metadata", "finalizers").Index(i), name,
				"name is neither a standard finalizer name nor is it fully qualified"))
		}
	}
	return errs
}

// requiredFields returns errors for missing fields, and for a selector that does not match the template.
func requiredFields(o *unstructured.Unstructured) field.ErrorList {
	switch o.GroupVersionKind().GroupKind().String() {
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
		if Nested(o, "spec", "type") == "ExternalName" || Nested(o, "spec", "clusterIP") == "None" {
			return nil
		}
		return required(o, "spec", "ports")
	case "CronJob.batch":
		return required(o, "spec", "schedule")
	}
	return nil
}

func required(o *unstructured.Unstructured, path ...string) field.ErrorList {
	switch value := Nested(o, path...).(type) {
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
	containers, _ := Nested(o, at...).([]any)
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
	wanted, _ := Nested(o, "spec", "selector", "matchLabels").(map[string]any)
	labels, _ := Nested(o, "spec", "template", "metadata", "labels").(map[string]any)
	for key, value := range wanted {
		if labels[key] != value {
			return append(errs, field.Invalid(field.NewPath("spec", "template", "metadata", "labels"), labels,
				"`selector` does not match template `labels`"))
		}
	}
	return errs
}

// finitePods returns an error unless the pods of a job may end.
func finitePods(o *unstructured.Unstructured) field.ErrorList {
	policy, _ := Nested(o, "spec", "template", "spec", "restartPolicy").(string)
	if policy == "OnFailure" || policy == "Never" {
		return nil
	}
	return field.ErrorList{field.NotSupported(field.NewPath("spec", "template", "spec", "restartPolicy"), policy,
		[]string{"OnFailure", "Never"})}
}

// mutable are the fields that may change below a field; all others are immutable.
func mutable() map[string]map[string][]string {
	return map[string]map[string][]string{
		"StatefulSet.apps": {"spec": {"replicas", "ordinals", "template", "updateStrategy", "revisionHistoryLimit",
			"persistentVolumeClaimRetentionPolicy", "minReadySeconds"}},
		"PersistentVolumeClaim": {"spec": {"resources", "volumeAttributesClassName", "volumeName"}},
		"Pod": {"spec": {"containers", "initContainers", "activeDeadlineSeconds", "tolerations",
			"terminationGracePeriodSeconds", "schedulingGates"}},
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
	name := o.GroupVersionKind().GroupKind().String()
	var errs field.ErrorList
	for _, path := range immutable()[name] {
		errs = append(errs, unchanged(o, old, strings.Split(path, ".")...)...)
	}
	for path, except := range mutable()[name] {
		now, _ := o.Object[path].(map[string]any)
		before, _ := old.Object[path].(map[string]any)
		for _, member := range lists.Keys(now, before) {
			if !slices.Contains(except, member) {
				errs = append(errs, unchanged(o, old, path, member)...)
			}
		}
	}
	switch name {
	case "Pod":
		errs = append(errs, onlyImagesChange(o, old)...)
	case "ConfigMap", "Secret":
		if Nested(old, "immutable") == true {
			errs = slices.Concat(errs, unchanged(o, old, "data"), unchanged(o, old, "binaryData"), unchanged(o, old, "immutable"))
		}
	}
	return errs
}

func unchanged(o, old *unstructured.Unstructured, path ...string) field.ErrorList {
	if reflect.DeepEqual(Nested(o, path...), Nested(old, path...)) {
		return nil
	}
	return field.ErrorList{field.Invalid(field.NewPath(path[0], path[1:]...), Nested(o, path...), "field is immutable")}
}

// onlyImagesChange returns an error if the containers of a pod differ in more than their images.
func onlyImagesChange(o, old *unstructured.Unstructured) field.ErrorList {
	for _, list := range []string{"containers", "initContainers"} {
		if !reflect.DeepEqual(withoutImages(Nested(o, "spec", list)), withoutImages(Nested(old, "spec", list))) {
			return field.ErrorList{field.Forbidden(field.NewPath("spec"),
				"pod updates may not change fields other than the images of containers")}
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
