package kinds

import (
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/setpoint-dev/setpoint/internal/lists"
)

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
	name := fullNameOf(o)
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
