package crds

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"reflect"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	setpoint "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/internal/cache"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/queue"
	"github.com/setpoint-dev/setpoint/internal/request"
)

// drift is what is known of a CRD that another manager may change while Setpoint runs, such as
// a Helm chart with Metacontroller's CRDs, and what was done about it.
type drift struct {
	manifest Manifest
	// skip disables corrections.
	skip bool
	// applied is the version that Setpoint applied.
	applied string
	// corrected are the managers whose change was corrected, each once.
	corrected map[string]bool
	// problem is how the stored CRD differs from Setpoint's; nil if it does not.
	problem error
}

// observed is the stored state of a CRD.
type observed struct {
	// manager is the last field manager other than Setpoint.
	manager string
	// current reports whether the CRD is up to date.
	current bool
}

// decide returns whether to apply a CRD again, and how it differs, with a reason for a
// condition. It corrects the change of each manager once: two managers must not fight over a CRD.
func (c *drift) decide(now observed) (correct bool, problem error) {
	name := c.manifest.Name()
	switch {
	case now.current:
		return false, nil
	case c.skip:
		return false, failure.WithReason(setpoint.ReasonCRDSkipped, fmt.Errorf(
			"the schema of CRD %s, last changed by %q, has no conditions, and --crds=skip keeps it: the status shows none, 'setpoint "+
				"get' does", name, now.manager))
	case c.corrected[now.manager]:
		return false, failure.WithReason(setpoint.ReasonCRDChangedBack, fmt.Errorf(
			"the field manager %q changed CRD %s again after Setpoint applied its own, so Setpoint keeps the change: the status may "+
				"lack fields; "+
				"remove the CRD from what %[1]s applies, or start Setpoint with --crds=skip", now.manager, name))
	}
	return true, nil
}

// Changed enqueues a corrected CRD that differs from the one Setpoint applied.
func (i *Installer) Changed(e cache.Event) {
	if e.New == nil || e.Old != nil && e.Old.UID() == e.New.UID() && e.Old.Generation() == e.New.Generation() {
		return
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if c := i.drifts[e.New.Name()]; c != nil && c.applied != versionOf(e.New) {
		i.changes.Add(queue.Key{Name: e.New.Name()}, queue.Cause{Kind: queue.RelatedChanged, Detail: Resource.Kind})
	}
}

// versionOf identifies the content of a CRD.
func versionOf(o *object.Object) string { return fmt.Sprint(o.UID(), "/", o.Generation()) }

// Correct checks changed CRDs until the context ends.
func (i *Installer) Correct(ctx context.Context) {
	i.changes.Work(ctx, 1, func(ctx context.Context, item queue.Item) queue.Outcome {
		err := i.check(ctx, i.drifts[item.Key.Name])
		switch {
		case err == nil || ctx.Err() != nil || apierrors.IsNotFound(err):
			return queue.NoRequeue()
		case item.Attempt == 0:
			i.options.Log.Warn("CRD check failed; retrying", "crd", item.Key.Name, "error", err.Error())
		}
		return queue.Retry()
	})
}

// Close ends Correct.
func (i *Installer) Close() { i.changes.Close() }

// check applies a changed CRD again where decide says so.
func (i *Installer) check(ctx context.Context, c *drift) error {
	now, err := i.observeDrift(ctx, c.manifest)
	if err != nil {
		return err
	}
	name := c.manifest.Name()
	correct, problem := c.decide(now)
	if correct {
		i.options.Log.Warn("CRD was changed; applying it again", "crd", name, "manager", now.manager)
		if err := i.apply(ctx, c.manifest); err != nil {
			return fmt.Errorf("apply it again after a change by %q: %w", now.manager, err)
		}
		c.corrected[now.manager] = true
	}
	i.mu.Lock()
	before := c.problem
	c.problem = problem
	i.mu.Unlock()
	if problem != nil && problem.Error() != failure.Text(before) {
		i.options.Log.Warn("CRD differs from Setpoint's", "crd", name, "problem", problem.Error())
	}
	i.options.Checked()
	return nil
}

// Problem returns how the CRD of a kind differs from Setpoint's, with a reason; nil if it does not.
func (i *Installer) Problem(resource object.Resource) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if c := i.drifts[NameOf(resource)]; c != nil {
		return c.problem
	}
	return nil
}

// observeDrift reads the stored CRD and compares it with Setpoint's.
func (i *Installer) observeDrift(ctx context.Context, d Manifest) (observed, error) {
	data, err := request.Do(ctx, i.options.Client.Get().AbsPath(Resource.Path("", d.Name())))
	if err != nil {
		return observed{}, err
	}
	stored, err := object.Parse(data)
	if err != nil {
		return observed{}, err
	}
	now := observed{manager: lastOtherManager(data)}
	if i.options.Skip {
		now.current, err = HasStatusConditions(stored, d)
	} else {
		now.current, err = i.isUpToDate(ctx, d, stored)
	}
	return now, err
}

// isUpToDate reports whether applying a CRD would change nothing.
func (i *Installer) isUpToDate(ctx context.Context, d Manifest, stored *object.Object) (bool, error) {
	tried, err := request.Object(request.Do(ctx, i.applyRequest(d).Param("dryRun", "All")))
	if err != nil {
		return false, fmt.Errorf("dry-run apply of CRD %s: %w", d.Name(), err)
	}
	var left, right any
	return json.Unmarshal(tried.Field("spec"), &left) == nil && json.Unmarshal(stored.Field("spec"), &right) == nil &&
		reflect.DeepEqual(left, right), nil
}

// lastOtherManager returns the field manager other than Setpoint that changed an object last.
func lastOtherManager(data []byte) string {
	var o metav1.PartialObjectMetadata
	if json.Unmarshal(data, &o) != nil {
		return ""
	}
	var last metav1.ManagedFieldsEntry
	for _, entry := range o.ManagedFields {
		if entry.Manager == fieldManager || entry.Subresource != "" {
			continue
		}
		if last.Manager == "" || last.Time.Before(entry.Time) {
			last = entry
		}
	}
	return cmp.Or(last.Manager, "an unknown field manager")
}
