package conflicts

import (
	"context"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordination "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/rest"

	setpoint "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
	"github.com/setpoint-dev/setpoint/internal/request"
)

// DetectInterval is the interval of detection.
const DetectInterval = 15 * time.Second

// Detector detects Metacontrollers in the same cluster. Two controllers of the same objects would fight, so a
// metacontroller.k8s.io controller runs here only if no Metacontroller runs it.
type Detector struct {
	find func(context.Context) ([]metacontroller, error)
	now  func() time.Time

	mu        sync.Mutex
	checkedAt time.Time
	found     []metacontroller
	// findErr is why Setpoint may not look for them; nil if it may.
	findErr error
}

// get returns the Metacontrollers, from a recent result if there is one.
func (d *Detector) get(ctx context.Context) ([]metacontroller, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.now().Sub(d.checkedAt) >= DetectInterval {
		if err := d.refresh(ctx); err != nil {
			return nil, err
		}
	}
	return d.found, d.findErr
}

// RefreshChanged detects them again and reports whether anything changed.
func (d *Detector) RefreshChanged(ctx context.Context) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	before := fmt.Sprint(d.found, d.findErr)
	return d.refresh(ctx) == nil && before != fmt.Sprint(d.found, d.findErr)
}

// refresh detects them. A Forbidden error is stored as a result; any other makes the next
// call try again. The caller holds the lock.
func (d *Detector) refresh(ctx context.Context) error {
	found, err := d.find(ctx)
	if err != nil && !request.IsForbiddenOrNotFound(err) {
		return err
	}
	d.checkedAt, d.found, d.findErr = d.now(), found, err
	return nil
}

// Check refuses a controller object that a Metacontroller runs. The notes say what could not be checked.
func (d *Detector) Check(ctx context.Context, declared *object.Object) (notes []string, err error) {
	if plan.Annotation(declared, setpoint.AnnotationIgnoreMetacontroller) == "true" {
		return nil, nil
	}
	found, err := d.get(ctx)
	switch {
	case request.IsForbiddenOrNotFound(err):
		return []string{fmt.Sprintf("cannot check whether a Metacontroller runs in this cluster (%v); make sure that none does", err)}, nil
	case err != nil:
		return nil, fmt.Errorf("detect Metacontroller in this cluster: %w", err)
	}
	i := slices.IndexFunc(found, func(one metacontroller) bool {
		return one.targets == nil || one.targets.Matches(declared.Labels())
	})
	if i < 0 {
		return nil, nil
	}
	return nil, &compile.Refusal{Reason: setpoint.ReasonConflictingMetacontroller, Err: fmt.Errorf(
		"a Metacontroller runs in this cluster (%s), and both would reconcile the same objects: scale it to 0, and this controller starts; "+
			"or, if it ignores this object, set the annotation %s: \"true\"", found[i].name, setpoint.AnnotationIgnoreMetacontroller)}
}

// Found returns the names of the Metacontrollers.
func (d *Detector) Found(ctx context.Context) ([]string, error) {
	found, err := d.get(ctx)
	if err != nil {
		return nil, fmt.Errorf("detect Metacontroller in this cluster: %w", err)
	}
	return lists.Map(found, func(one metacontroller) string { return one.name }), nil
}

// NewDetector returns a detector. It ignores holders of Leases for which isOwnLease is true.
func NewDetector(client rest.Interface, isOwnLease func(namespace, name string) bool) *Detector {
	f := finder{client: client, isOwnLease: isOwnLease}
	return &Detector{find: f.find, now: time.Now}
}

// finder finds Metacontrollers.
type finder struct {
	client     rest.Interface
	isOwnLease func(namespace, name string) bool
}

// metacontroller is a Metacontroller that runs in the same cluster.
type metacontroller struct {
	// name is such as "StatefulSet ops/metacontroller".
	name string
	// targets selects its controller objects; nil for all.
	targets labels.Selector
}

// MetacontrollerName is the name of its image and Lease, and the value of its name label.
const MetacontrollerName = "metacontroller"

// leaseMaxAge is the age of a Lease that still counts: twice Metacontroller's default lease duration.
const leaseMaxAge = 30 * time.Second

// find finds running Metacontrollers by the image or the standard label of a workload, or by the
// leader Lease. One outside the cluster without a Lease is not found.
func (f finder) find(ctx context.Context) ([]metacontroller, error) {
	var found []metacontroller
	for _, resource := range []object.Resource{
		{Group: "apps", Version: "v1", Plural: "statefulsets", Kind: "StatefulSet", Namespaced: true},
		{Group: "apps", Version: "v1", Plural: "deployments", Kind: "Deployment", Namespaced: true},
	} {
		some, err := f.workloads(ctx, resource)
		if err != nil {
			return nil, fmt.Errorf("list %s: %w", resource, err)
		}
		found = append(found, some...)
	}
	if len(found) > 0 {
		return found, nil
	}
	found, err := f.leaseHolders(ctx)
	if err != nil {
		err = fmt.Errorf("list %s: %w", object.Leases, err)
	}
	return found, err
}

// workloads reads the tables of the API server: they have the images, and are much smaller than the objects.
func (f finder) workloads(ctx context.Context, resource object.Resource) ([]metacontroller, error) {
	var found []metacontroller
	for next := ""; ; {
		var page metav1.Table
		err := f.client.Get().AbsPath(resource.Path("", "")).Param("limit", "500").Param("continue", next).
			SetHeader("Accept", "application/json;as=Table;g=meta.k8s.io;v=v1").Do(ctx).Into(&page)
		if err != nil {
			return nil, err
		}
		for _, o := range candidates(&page) {
			one, err := f.workload(ctx, resource, o)
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

// candidates returns the rows of a table that may be Metacontrollers.
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
		labeled := o.Labels["app.kubernetes.io/name"] == MetacontrollerName // As in its own manifests.
		if labeled || slices.ContainsFunc(strings.Split(printed, ","), isMetacontrollerImage) {
			found = append(found, &o)
		}
	}
	return found
}

// isMetacontrollerImage reports whether an image is Metacontroller's, in any registry.
func isMetacontrollerImage(image string) bool {
	repository, _, _ := strings.Cut(image, "@")
	name, _, _ := strings.Cut(path.Base(repository), ":")
	return name == MetacontrollerName
}

// workload returns a workload if it runs, with the controllers that it selects.
func (f finder) workload(ctx context.Context, resource object.Resource, o *metav1.PartialObjectMetadata) ([]metacontroller, error) {
	var declared appsv1.StatefulSet // A Deployment has the same fields.
	err := f.client.Get().AbsPath(resource.Path(o.Namespace, o.Name)).Do(ctx).Into(&declared)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if declared.Status.Replicas == 0 && declared.Spec.Replicas != nil && *declared.Spec.Replicas == 0 {
		return nil, nil
	}
	what := resource.Kind + " " + o.Namespace + "/" + o.Name
	return []metacontroller{{name: what, targets: targetSelector(declared.Spec.Template.Spec.Containers)}}, nil
}

// leaseHolders returns the holders of fresh Leases.
func (f finder) leaseHolders(ctx context.Context) ([]metacontroller, error) {
	var list coordination.LeaseList
	if err := f.client.Get().AbsPath(object.Leases.Path("", "")).Param("fieldSelector", "metadata.name="+
		MetacontrollerName).Do(ctx).Into(&list); err != nil {
		return nil, err
	}
	var found []metacontroller
	for _, lease := range list.Items {
		holder, renewed := lease.Spec.HolderIdentity, lease.Spec.RenewTime
		if f.isOwnLease(lease.Namespace, lease.Name) {
			// The holder of this Lease stands by while this replica leads.
			continue
		}
		if holder != nil && *holder != "" && renewed != nil && time.Since(renewed.Time) < leaseMaxAge {
			found = append(found, metacontroller{name: fmt.Sprintf("%s, which holds the Lease %s/%s",
				*holder, lease.Namespace, lease.Name)})
		}
	}
	return found, nil
}

// targetSelector returns the label selector in the flags of a Metacontroller; nil if it has none, or an invalid one.
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
