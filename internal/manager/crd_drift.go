package manager

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	setpoint "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/internal/cache"
	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/queue"
)

// driftCorrector applies the CRDs of controllers again when others change them while
// Setpoint runs: a Helm chart or a GitOps tool that brings Metacontroller's.
type driftCorrector struct {
	host  *Manager
	queue *queue.Queue
	// manifests are the CRDs of controllers by name; none where no object declares one.
	manifests map[string]crdManifest

	mu         sync.Mutex
	crds       map[string]*crdCorrections
	conditions map[string]conditionState
}

// The delays before a CRD that could not be applied is tried again.
const (
	driftMinBackoff = time.Second
	driftMaxBackoff = 5 * time.Minute
)

func newDriftCorrector(m *Manager) (*driftCorrector, error) {
	dc := &driftCorrector{
		host: m, queue: queue.New(queue.Options{BaseDelay: driftMinBackoff, MaxDelay: driftMaxBackoff}),
		manifests: map[string]crdManifest{}, crds: map[string]*crdCorrections{}, conditions: map[string]conditionState{},
	}
	if len(m.options.GoControllers) > 0 {
		return dc, nil
	}
	ours, err := controllerCRDs()
	if err != nil {
		return nil, err
	}
	for _, d := range ours {
		dc.manifests[d.Name()], dc.crds[d.Name()] = d, &crdCorrections{skip: m.options.SkipCRDs}
	}
	return dc, nil
}

// changed queues a CRD of controllers that is another than Setpoint applied.
func (d *driftCorrector) changed(e cache.Event) {
	if e.New == nil || e.Old != nil && e.Old.UID() == e.New.UID() && e.Old.Generation() == e.New.Generation() {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if c := d.crds[e.New.Name()]; c != nil && c.applied != versionOf(e.New) {
		d.queue.Add(queue.Key{Name: e.New.Name()}, queue.Cause{Kind: queue.RelatedChanged, Detail: crdResource.Kind})
	}
}

// applied notes a CRD that is up to date.
func (d *driftCorrector) applied(o *object.Object) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if c := d.crds[o.Name()]; c != nil {
		c.applied = versionOf(o)
	}
}

// versionOf tells the contents of a CRD from those before and after.
func versionOf(o *object.Object) string { return fmt.Sprint(o.UID(), "/", o.Generation()) }

// work looks at what has changed until the context ends.
func (d *driftCorrector) work(ctx context.Context) {
	d.queue.Work(ctx, func(ctx context.Context, item queue.Item) queue.Outcome {
		err := d.check(ctx, item.Key.Name)
		switch {
		case err == nil || ctx.Err() != nil || apierrors.IsNotFound(err):
			return queue.NoRequeue()
		case item.Attempt == 0:
			d.host.log.Warn("CRD not checked; trying again", "crd", item.Key.Name, "error", err.Error())
		}
		return queue.Retry()
	})
}

// check applies a CRD again if that is called for.
func (d *driftCorrector) check(ctx context.Context, name string) error {
	now, err := d.observe(ctx, name)
	if err != nil {
		return err
	}
	d.mu.Lock()
	condition, correct := d.crds[name].decide(now)
	d.mu.Unlock()
	if correct {
		d.host.log.Warn("CRD was changed; applying ours again", "crd", name, "manager", now.manager)
		if err := d.host.applyCRD(ctx, d.manifests[name]); err != nil {
			return fmt.Errorf("apply it again after %q changed it: %w", now.manager, err)
		}
		d.mu.Lock()
		d.crds[name].correct(now)
		d.mu.Unlock()
	}
	d.logCondition(name, condition)
	// What the schema has a place for may be another by now.
	d.host.controllers.resetReported()
	return nil
}

// logCondition makes known what has become of a CRD, once for each change of it.
func (d *driftCorrector) logCondition(name string, now conditionState) {
	d.mu.Lock()
	before, known := d.conditions[name]
	d.conditions[name] = now
	d.mu.Unlock()
	if now.ok || known && before == now {
		return
	}
	d.host.log.Warn("CRD is not Setpoint's", "crd", name, "problem", now.message)
}

// currentCondition is what is known of the CRD of a kind of controllers.
func (d *driftCorrector) currentCondition(kind compile.Kind) conditionState {
	d.mu.Lock()
	defer d.mu.Unlock()
	if now, known := d.conditions[crdNameOf(kind.Resource)]; known {
		return now
	}
	return crdCurrentCondition()
}

func crdCurrentCondition() conditionState {
	return conditionState{true, setpoint.ReasonCRDCurrent, "the CRD of this kind is the one of this Setpoint"}
}

// observe reads a CRD as it is stored.
func (d *driftCorrector) observe(ctx context.Context, name string) (crdState, error) {
	data, err := doRequest(ctx, d.host.client.Get().AbsPath(crdResource.Path("", name)))
	if err != nil {
		return crdState{}, err
	}
	stored, err := object.Parse(data)
	if err != nil {
		return crdState{}, err
	}
	now := crdState{name: name, version: versionOf(stored), manager: lastOtherManager(data)}
	if d.host.options.SkipCRDs {
		now.current, err = hasStatusConditions(stored, d.manifests[name])
	} else {
		now.current, err = d.host.isUpToDate(ctx, d.manifests[name], stored)
	}
	return now, err
}

// isUpToDate says whether applying a definition would change nothing.
func (m *Manager) isUpToDate(ctx context.Context, d crdManifest, stored *object.Object) (bool, error) {
	tried, err := readCRD(doRequest(ctx, m.applyCRDRequest(d).Param("dryRun", "All")))
	if err != nil {
		return false, fmt.Errorf("try to apply CRD %s: %w", d.Name(), err)
	}
	return sameJSON(tried.Field("spec"), stored.Field("spec")), nil
}

func sameJSON(a, b []byte) bool {
	var left, right any
	return json.Unmarshal(a, &left) == nil && json.Unmarshal(b, &right) == nil && reflect.DeepEqual(left, right)
}

// hasStatusConditions says whether a CRD that others look after has a place for the
// conditions of controllers, where ours has.
func hasStatusConditions(stored *object.Object, ours crdManifest) (bool, error) {
	var shape crdSchema
	if err := json.Unmarshal(ours.JSON(), &shape); err != nil {
		return false, fmt.Errorf("read CRD %s: %w", ours.Name(), err)
	}
	for _, version := range shape.Spec.Versions {
		wanted, err := statusSchemaOf(ours.Object, version.Name)
		if err != nil {
			return false, err
		}
		has, err := statusSchemaOf(stored, version.Name)
		if err != nil || wanted.Conditions && !has.Conditions {
			return false, err
		}
	}
	return true, nil
}

// lastOtherManager is the field manager that changed an object last, Setpoint aside.
func lastOtherManager(data []byte) string {
	var o metav1.PartialObjectMetadata
	if json.Unmarshal(data, &o) != nil {
		return ""
	}
	var last metav1.ManagedFieldsEntry
	for _, entry := range o.ManagedFields {
		if entry.Manager == programName || entry.Subresource != "" {
			continue
		}
		if last.Manager == "" || last.Time.Before(entry.Time) {
			last = entry
		}
	}
	return cmp.Or(last.Manager, "an unknown field manager")
}
