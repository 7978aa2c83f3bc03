package conflicts

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

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

// Check refuses a controller object that a Metacontroller runs. The note says what could not be checked.
func (d *Detector) Check(ctx context.Context, declared *object.Object) (note string, err error) {
	if plan.Annotation(declared, setpoint.AnnotationIgnoreMetacontroller) == "true" {
		return "", nil
	}
	found, err := d.get(ctx)
	switch {
	case request.IsForbiddenOrNotFound(err):
		return fmt.Sprintf("cannot check whether a Metacontroller runs in this cluster (%v); make sure that none does", err), nil
	case err != nil:
		return "", fmt.Errorf("detect Metacontroller in this cluster: %w", err)
	}
	i := slices.IndexFunc(found, func(one metacontroller) bool {
		return one.targets == nil || one.targets.Matches(declared.Labels())
	})
	if i < 0 {
		return "", nil
	}
	return "", &compile.Refusal{Reason: setpoint.ReasonConflictingMetacontroller, Err: fmt.Errorf(
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
