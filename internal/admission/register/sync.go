package register

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/setpoint-dev/setpoint/internal/admission"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/request"
)

// syncLoop is one run of a Registrar.
type syncLoop struct {
	*Registrar

	views views
	// states are those of each configuration.
	states map[configurationKey]*configurationState
	// bundle is the desired bundle, and bundleSince since when it is desired.
	bundle      []byte
	bundleSince time.Time
	probes      *probes
}

// idleInterval is how often a Registrar checks without a cause.
const idleInterval = 10 * time.Minute

// Run syncs the configurations until ctx ends. Only the leader runs it.
func (r *Registrar) Run(ctx context.Context) {
	t := &syncLoop{
		Registrar: r, states: map[configurationKey]*configurationState{},
		probes: &probes{registrar: r, byKey: map[probeKey]*prober{}},
		views:  watchConfigurations(r.options.Store, GroupSelector(r.options.Group), r.wake),
	}
	defer t.close()
	for _, view := range t.views {
		select {
		case <-view.ReadyOrFailed():
		case <-ctx.Done():
			return
		}
	}
	for ctx.Err() == nil {
		changed := r.options.Certificates.Changed()
		again := t.pass(ctx)
		t.probes.sync(ctx)
		timer := r.options.Clock.NewTimer(again.Sub(r.options.Clock.Now()))
		if !r.options.Clock.Now().Before(again) {
			r.wake.send() // It has passed while the timer was being set.
		}
		select {
		case <-r.wake:
		case <-changed:
			for _, one := range t.probes.byKey {
				one.now.send()
			}
		case <-timer.C():
		case <-ctx.Done():
		}
		timer.Stop()
	}
}

func (t *syncLoop) close() {
	t.probes.stop()
	t.views.close()
	t.mu.Lock()
	defer t.mu.Unlock()
	for program := range t.health {
		t.health[program] = Health{}
	}
}

// pass syncs all configurations, and returns when to check again.
func (t *syncLoop) pass(ctx context.Context) time.Time {
	programs, known := t.wanted()
	again := t.options.Clock.Now().Add(idleInterval)
	bundle := t.options.Certificates.Bundle()
	if !known {
		return again
	}
	if bundle == nil {
		for _, p := range programs {
			t.reportHealth(p, false, t.options.Certificates.Err())
		}
		return again
	}
	if !bytes.Equal(bundle, t.bundle) {
		t.bundle, t.bundleSince = bundle, t.options.Clock.Now()
	}
	all := map[configurationKey]bool{}
	for _, p := range programs {
		again = earlier(again, t.registerProgram(ctx, p, all))
	}
	again = earlier(again, t.removeUnwanted(ctx, all))
	t.reportPropagation(all)
	return again
}

// earlier returns the earlier of two times; zero means none.
func earlier(a, b time.Time) time.Time {
	if b.IsZero() || !a.IsZero() && a.Before(b) {
		return a
	}
	return b
}

// registerProgram syncs the configurations of a program.
func (t *syncLoop) registerProgram(ctx context.Context, p *admission.Program, all map[configurationKey]bool) (again time.Time) {
	var problems []error
	synced := true
	for _, desired := range t.options.configurations(p, t.bundle) {
		key := keyOf(desired.Kind, desired.Name)
		e := t.state(key)
		if all[key] {
			problems = append(problems, fmt.Errorf("two programs have %s: rename one of them", key))
		} else {
			all[key] = true
			if t.syncConfiguration(ctx, desired, e) {
				t.probes.wake(p.Name)
			}
			problems = append(problems, e.problem())
			again = earlier(again, e.retryAt)
		}
		synced = synced && e.synced
	}
	if ctx.Err() == nil {
		t.reportHealth(p, synced, errors.Join(problems...))
	}
	return again
}

func (t *syncLoop) reportHealth(p *admission.Program, registered bool, err error) {
	t.updateHealth(p.Name, func(h *Health) { h.Registered, h.Problem = registered, failure.Text(err) })
}

func (t *syncLoop) state(key configurationKey) *configurationState {
	if t.states[key] == nil {
		t.states[key] = &configurationState{key: key}
	}
	return t.states[key]
}

// syncConfiguration syncs one configuration if it may be retried; true if it was written.
func (t *syncLoop) syncConfiguration(ctx context.Context, desired *configuration, e *configurationState) bool {
	view, now := t.views[e.key.resource], t.options.Clock.Now()
	if !view.Synced() {
		e.markFailed(fmt.Errorf("read %s: %w", e.key.resource.Plural, view.Err()), now)
		return false
	}
	stored := view.Get("", e.key.name)
	if stored != nil && matches(desired, stored) {
		e.markSynced(desired, now)
		return false
	}
	if !e.mayWrite(desired, now) {
		return false
	}
	if e.conflicting() && !e.warned {
		e.warned = true
		t.options.Log.Warn("another client keeps changing a webhook configuration; backing off", "configuration", e.key.String())
	}
	result, err := t.write(ctx, e.key, desired, stored)
	switch {
	case ctx.Err() != nil:
		return false
	case apierrors.IsConflict(err):
		e.retryAt = now.Add(minDelay / 10) // The watch will have brought it.
		return false
	case err != nil:
		if e.markFailed(err, now) {
			t.options.Log.Warn("failed to write a webhook configuration; retrying", "configuration", e.key.String(), "error", err.Error())
		}
		return false
	}
	view.ObserveWrite(result)
	e.markWritten(desired, stored == nil, matches(desired, result), now)
	return true
}

// matches reports whether a configuration is stored as desired.
func matches(desired *configuration, o *object.Object) bool {
	stored, overlaid, err := overlay(desired, o)
	return err == nil && equality.Semantic.DeepEqual(stored, overlaid)
}

// write creates or updates a configuration. It restores the label of one that lost it.
func (t *syncLoop) write(ctx context.Context, key configurationKey, desired *configuration, stored *object.Object) (*object.Object, error) {
	path := key.resource.Path("", key.name)
	if stored == nil {
		created, err := t.send(ctx, t.options.Client.Post().AbsPath(key.resource.Path("", "")), desired)
		if !apierrors.IsAlreadyExists(err) {
			return created, wrapError("create", key, err)
		}
		if stored, err = request.Object(request.Do(ctx, t.options.Client.Get().AbsPath(path))); err != nil {
			return nil, wrapError("read", key, err)
		}
		owner := metav1.GetControllerOfNoCopy(desired)
		if !t.options.owns(stored) && (owner == nil || !stored.ControlledBy(string(owner.UID))) {
			return nil, fmt.Errorf("%s does not belong to this Setpoint, because it has no label %s=%s: delete it or use another name",
				key, groupLabel, t.options.Group)
		}
	}
	_, overlaid, err := overlay(desired, stored)
	if err != nil {
		return nil, wrapError("update", key, err)
	}
	updated, err := t.send(ctx, t.options.Client.Put().AbsPath(path), overlaid)
	return updated, wrapError("update", key, err)
}

func (t *syncLoop) send(ctx context.Context, write *rest.Request, c *configuration) (*object.Object, error) {
	return request.Object(request.DoJSON(ctx, write.Param("fieldManager", admission.ManagerName), c))
}

// removeUnwanted removes configurations of the group that are not desired.
func (t *syncLoop) removeUnwanted(ctx context.Context, wanted map[configurationKey]bool) (again time.Time) {
	for resource, view := range t.views {
		for o := range view.All() {
			key := configurationKey{resource, o.Name()}
			if wanted[key] || t.isRetained(o) {
				continue
			}
			e := t.state(key)
			t.remove(ctx, o, e)
			again = earlier(again, e.retryAt)
		}
	}
	return again
}

func (t *syncLoop) remove(ctx context.Context, o *object.Object, e *configurationState) {
	now := t.options.Clock.Now()
	// A deletion does not wait for the backoff of conflicting writes.
	if o.Deleting() || e.err != nil && now.Before(e.retryAt) {
		return
	}
	err := remove(ctx, t.options.Client, e.key.resource, o)
	switch {
	case ctx.Err() != nil:
	case err != nil:
		if e.markFailed(wrapError("delete", e.key, err), now) {
			t.options.Log.Warn("failed to remove a webhook configuration; retrying", "configuration", e.key.String(), "error", err.Error())
		}
	default:
		delete(t.states, e.key)
		t.views[e.key.resource].ObserveDelete(o)
	}
}

// reportPropagation reports since when all configurations have had the bundle.
func (t *syncLoop) reportPropagation(all map[configurationKey]bool) {
	since := t.bundleSince
	for key := range all {
		e := t.state(key)
		if !e.synced {
			since = time.Time{}
			break
		}
		if e.since.After(since) {
			since = e.since
		}
	}
	t.options.Certificates.Propagated(t.bundle, since)
}

// Unregister removes all configurations of a group, for a program that no longer runs.
func Unregister(ctx context.Context, client rest.Interface, group string) error {
	for _, resource := range Resources() {
		response, err := request.Do(ctx, client.Get().AbsPath(resource.Path("", "")).Param("labelSelector", GroupSelector(group)))
		var list struct{ Items []json.RawMessage }
		if err == nil {
			err = json.Unmarshal(response, &list)
		}
		if err != nil {
			return fmt.Errorf("list %s: %w", resource.Plural, err)
		}
		for _, item := range list.Items {
			o, err := object.ParseAs(item, resource.APIVersion(), resource.Kind)
			if err != nil {
				return fmt.Errorf("list %s: %w", resource.Plural, err)
			}
			if err := remove(ctx, client, resource, o); err != nil {
				return wrapError("delete", configurationKey{resource, o.Name()}, err)
			}
		}
	}
	return nil
}
