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
	"github.com/setpoint-dev/setpoint/internal/manager/crds"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/queue"
	"github.com/setpoint-dev/setpoint/internal/request"
)

// driftCorrector applies the CRDs of controllers again when another manager changes them
// while Setpoint runs, such as a Helm chart with Metacontroller's CRDs.
type driftCorrector struct {
	manager *Manager
	queue   *queue.Queue
	// manifests are the CRDs of controllers by name; empty in a Go program.
	manifests map[string]crds.Manifest

	mu         sync.Mutex
	crds       map[string]*crdCorrections
	conditions map[string]conditionState
}

// The delays before a failed check of a CRD is retried.
const (
	driftMinBackoff = time.Second
	driftMaxBackoff = 5 * time.Minute
)

func newDriftCorrector(m *Manager) (*driftCorrector, error) {
	dc := &driftCorrector{
		manager: m, queue: queue.New(queue.Options{BaseDelay: driftMinBackoff, MaxDelay: driftMaxBackoff}),
		manifests: map[string]crds.Manifest{}, crds: map[string]*crdCorrections{}, conditions: map[string]conditionState{},
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

// changed enqueues a CRD that differs from the one Setpoint applied.
func (d *driftCorrector) changed(e cache.Event) {
	if e.New == nil || e.Old != nil && e.Old.UID() == e.New.UID() && e.Old.Generation() == e.New.Generation() {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if c := d.crds[e.New.Name()]; c != nil && c.applied != versionOf(e.New) {
		d.queue.Add(queue.Key{Name: e.New.Name()}, queue.Cause{Kind: queue.RelatedChanged, Detail: crds.Resource.Kind})
	}
}

// applied stores the version of a CRD that Setpoint applied.
func (d *driftCorrector) applied(o *object.Object) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if c := d.crds[o.Name()]; c != nil {
		c.applied = versionOf(o)
	}
}

// versionOf identifies the content of a CRD.
func versionOf(o *object.Object) string { return fmt.Sprint(o.UID(), "/", o.Generation()) }

// work checks changed CRDs until the context ends.
func (d *driftCorrector) work(ctx context.Context) {
	d.queue.Work(ctx, func(ctx context.Context, item queue.Item) queue.Outcome {
		err := d.check(ctx, item.Key.Name)
		switch {
		case err == nil || ctx.Err() != nil || apierrors.IsNotFound(err):
			return queue.NoRequeue()
		case item.Attempt == 0:
			d.manager.log.Warn("CRD check failed; retrying", "crd", item.Key.Name, "error", err.Error())
		}
		return queue.Retry()
	})
}

// check applies a changed CRD again where decide says so.
func (d *driftCorrector) check(ctx context.Context, name string) error {
	now, err := d.observe(ctx, name)
	if err != nil {
		return err
	}
	d.mu.Lock()
	condition, correct := d.crds[name].decide(now)
	d.mu.Unlock()
	if correct {
		d.manager.log.Warn("CRD was changed; applying it again", "crd", name, "manager", now.manager)
		if err := d.manager.applyCRD(ctx, d.manifests[name]); err != nil {
			return fmt.Errorf("apply it again after a change by %q: %w", now.manager, err)
		}
		d.mu.Lock()
		d.crds[name].correct(now)
		d.mu.Unlock()
	}
	d.logCondition(name, condition)
	// The schema may store other status fields now.
	d.manager.controllers.resetReported()
	return nil
}

// logCondition stores and logs the condition of a CRD when it changes.
func (d *driftCorrector) logCondition(name string, now conditionState) {
	d.mu.Lock()
	before, known := d.conditions[name]
	d.conditions[name] = now
	d.mu.Unlock()
	if now.ok || known && before == now {
		return
	}
	d.manager.log.Warn("CRD differs from Setpoint's", "crd", name, "problem", now.message)
}

// currentCondition returns the condition CRDCurrent of a controller kind.
func (d *driftCorrector) currentCondition(kind compile.Kind) conditionState {
	d.mu.Lock()
	defer d.mu.Unlock()
	if now, known := d.conditions[crds.NameOf(kind.Resource)]; known {
		return now
	}
	return crdCurrentCondition()
}

func crdCurrentCondition() conditionState {
	return conditionState{true, setpoint.ReasonCRDCurrent, "the CRD is the one of this Setpoint version"}
}

// observe reads the stored CRD.
func (d *driftCorrector) observe(ctx context.Context, name string) (crdState, error) {
	data, err := request.Do(ctx, d.manager.client.Get().AbsPath(crds.Resource.Path("", name)))
	if err != nil {
		return crdState{}, err
	}
	stored, err := object.Parse(data)
	if err != nil {
		return crdState{}, err
	}
	now := crdState{name: name, version: versionOf(stored), manager: lastOtherManager(data)}
	if d.manager.options.SkipCRDs {
		now.current, err = crds.HasStatusConditions(stored, d.manifests[name])
	} else {
		now.current, err = d.manager.isUpToDate(ctx, d.manifests[name], stored)
	}
	return now, err
}

// isUpToDate reports whether applying a CRD would change nothing.
func (m *Manager) isUpToDate(ctx context.Context, d crds.Manifest, stored *object.Object) (bool, error) {
	tried, err := readCRD(request.Do(ctx, m.applyCRDRequest(d).Param("dryRun", "All")))
	if err != nil {
		return false, fmt.Errorf("dry-run apply of CRD %s: %w", d.Name(), err)
	}
	return sameJSON(tried.Field("spec"), stored.Field("spec")), nil
}

func sameJSON(a, b []byte) bool {
	var left, right any
	return json.Unmarshal(a, &left) == nil && json.Unmarshal(b, &right) == nil && reflect.DeepEqual(left, right)
}

// lastOtherManager returns the field manager other than Setpoint that changed an object last.
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
