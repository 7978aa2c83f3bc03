package manager

import (
	"context"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	coordination "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/setpoint-dev/setpoint/internal/object"
)

// otherMetacontroller is a Metacontroller that runs in the same cluster.
type otherMetacontroller struct {
	// name names it, such as "StatefulSet ops/metacontroller".
	name string
	// targets are the controller objects it works on; nil for all.
	targets labels.Selector
}

// metacontrollerName is what its image, its lease and its standard label are
// called.
const metacontrollerName = "metacontroller"

// leaseMaxAge is how long a lease that is not renewed still counts: twice what
// Metacontroller's leader has.
const leaseMaxAge = 30 * time.Second

// The kinds that tell of one.
var (
	statefulSetResource = object.Resource{Group: "apps", Version: "v1", Plural: "statefulsets", Kind: "StatefulSet", Namespaced: true}
	deploymentResource  = object.Resource{Group: "apps", Version: "v1", Plural: "deployments", Kind: "Deployment", Namespaced: true}
	podResource         = object.Resource{Version: "v1", Plural: "pods", Kind: "Pod", Namespaced: true}
	leaseResource       = object.Resource{Group: "coordination.k8s.io", Version: "v1", Plural: "leases", Kind: "Lease", Namespaced: true}
)

// findMetacontrollers finds those that run: by the image of a workload, by the
// standard label, and by the lease of a leader. One that runs elsewhere, without
// a lease, cannot be found.
func (m *Manager) findMetacontrollers(ctx context.Context) ([]otherMetacontroller, error) {
	var found []otherMetacontroller
	for _, resource := range []object.Resource{statefulSetResource, deploymentResource} {
		some, err := m.workloads(ctx, resource)
		if err != nil {
			return nil, fmt.Errorf("list %s: %w", resource, err)
		}
		found = append(found, some...)
	}
	if len(found) > 0 {
		return found, nil
	}
	found, err := m.labeledPods(ctx)
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", podResource, err)
	}
	leaders, err := m.leaseHolders(ctx)
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", leaseResource, err)
	}
	return append(found, leaders...), nil
}

// workloads looks at the tables that the API server prints for a person: they
// have the images, and are a small part of what the objects are.
func (m *Manager) workloads(ctx context.Context, resource object.Resource) ([]otherMetacontroller, error) {
	var found []otherMetacontroller
	for next := ""; ; {
		data, err := doRequestAs(ctx, "application/json;as=Table;g=meta.k8s.io;v=v1",
			m.client.Get().AbsPath(resource.Path("", "")).Param("limit", "500").Param("continue", next))
		if err != nil {
			return nil, err
		}
		var page metav1.Table
		if err := json.Unmarshal(data, &page); err != nil {
			return nil, err
		}
		for _, o := range candidates(&page) {
			one, err := m.workload(ctx, resource, o)
			if err != nil {
				return nil, err
			}
			found = append(found, one...)
		}
		if next = page.Continue; next == "" {
			return found, nil
		}
	}
}

// candidates are the rows of a table that may be Metacontrollers.
func candidates(table *metav1.Table) []*metav1.PartialObjectMetadata {
	images := slices.IndexFunc(table.ColumnDefinitions, func(c metav1.TableColumnDefinition) bool { return c.Name == "Images" })
	var found []*metav1.PartialObjectMetadata
	for _, row := range table.Rows {
		var o metav1.PartialObjectMetadata
		if json.Unmarshal(row.Object.Raw, &o) != nil {
			continue
		}
		printed := ""
		if images >= 0 && images < len(row.Cells) {
			printed, _ = row.Cells[images].(string)
		}
		if hasMetacontrollerLabel(o.Labels) || slices.ContainsFunc(strings.Split(printed, ","), isMetacontrollerImage) {
			found = append(found, &o)
		}
	}
	return found
}

// hasMetacontrollerLabel says that an object is labelled as the manifests of Metacontroller do.
func hasMetacontrollerLabel(labels map[string]string) bool {
	return labels["app.kubernetes.io/name"] == metacontrollerName
}

// isMetacontrollerImage says that an image is one of Metacontroller, wherever it is
// mirrored.
func isMetacontrollerImage(image string) bool {
	repository, _, _ := strings.Cut(image, "@")
	name, _, _ := strings.Cut(path.Base(repository), ":")
	return name == metacontrollerName
}

// workload looks at one closely: whether it runs, and on which controllers it
// works.
func (m *Manager) workload(ctx context.Context, resource object.Resource, o *metav1.PartialObjectMetadata) ([]otherMetacontroller, error) {
	data, err := doRequest(ctx, m.client.Get().AbsPath(resource.Path(o.Namespace, o.Name)))
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var declared struct {
		Spec struct {
			Replicas *int32
			Template corev1.PodTemplateSpec
		}
		Status struct{ Replicas int32 }
	}
	if err := json.Unmarshal(data, &declared); err != nil {
		return nil, err
	}
	if declared.Status.Replicas == 0 && declared.Spec.Replicas != nil && *declared.Spec.Replicas == 0 {
		return nil, nil
	}
	what := resource.Kind + " " + o.Namespace + "/" + o.Name
	return []otherMetacontroller{{name: what, targets: targetSelector(declared.Spec.Template.Spec.Containers)}}, nil
}

// labeledPods are those with the standard label, whoever made them.
func (m *Manager) labeledPods(ctx context.Context) ([]otherMetacontroller, error) {
	data, err := doRequest(ctx, m.client.Get().AbsPath(podResource.Path("", "")).
		Param("labelSelector", "app.kubernetes.io/name="+metacontrollerName).Param("fieldSelector", "status.phase=Running"))
	if err != nil {
		return nil, err
	}
	var list corev1.PodList
	if err := json.Unmarshal(data, &list); err != nil {
		return nil, err
	}
	var found []otherMetacontroller
	for _, pod := range list.Items {
		found = append(found, otherMetacontroller{name: "Pod " + pod.Namespace + "/" + pod.Name, targets: targetSelector(pod.Spec.Containers)})
	}
	return found, nil
}

// leaseHolders are those who hold a lease, wherever they run.
func (m *Manager) leaseHolders(ctx context.Context) ([]otherMetacontroller, error) {
	data, err := doRequest(ctx, m.client.Get().AbsPath(leaseResource.Path("", "")).Param("fieldSelector", "metadata.name="+metacontrollerName))
	if err != nil {
		return nil, err
	}
	var list coordination.LeaseList
	if err := json.Unmarshal(data, &list); err != nil {
		return nil, err
	}
	var found []otherMetacontroller
	for _, lease := range list.Items {
		holder, renewed := lease.Spec.HolderIdentity, lease.Spec.RenewTime
		if m.leaseLock != nil && m.leaseLock.isLease(lease.Namespace, lease.Name) {
			// Whoever holds our own lease does not act while we do.
			continue
		}
		if holder != nil && *holder != "" && renewed != nil && time.Since(renewed.Time) < leaseMaxAge {
			found = append(found, otherMetacontroller{name: fmt.Sprintf("%s, which holds the Lease %s/%s", *holder, lease.Namespace, lease.Name)})
		}
	}
	return found, nil
}

// targetSelector reads the flag by which a Metacontroller is limited to some
// controllers; nil where it is not, or not in a way that can be understood.
func targetSelector(containers []corev1.Container) labels.Selector {
	for _, c := range containers {
		words := slices.Concat(c.Command, c.Args)
		for i, word := range words {
			name, value, given := strings.Cut(strings.TrimLeft(word, "-"), "=")
			if name != "target-label-selector" {
				continue
			}
			if !given && i+1 < len(words) {
				value = words[i+1]
			}
			if selector, err := labels.Parse(value); err == nil && value != "" {
				return selector
			}
		}
	}
	return nil
}
