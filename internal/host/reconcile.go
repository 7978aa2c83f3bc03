package host

import (
	"context"
	"errors"
	"fmt"
	"reflect"

	setpoint "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/engine"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/queue"
)

// reconcile makes what runs for a controller object what the object says.
func (f *fleet) reconcile(ctx context.Context, key queue.Key) queue.Outcome {
	declared := f.kinds[key.Namespace].view.Get("", key.Name)
	if declared == nil || declared.Deleting() {
		f.remove(key)
		return queue.Settled()
	}
	compiled, err := f.compile(ctx, key, declared)
	var refusal *compile.Refusal
	if ctx.Err() != nil {
		return queue.Settled()
	}
	if err != nil && !errors.As(err, &refusal) {
		f.host.log.Warn("cannot look up what a controller needs; trying again", "controller", key.String(), "error", err.Error())
		return queue.Retry()
	}
	f.settle(ctx, key, declared, compiled, err)
	if refusal != nil && (refusal.Reason == setpoint.ReasonForbidden || refusal.Reason == setpoint.ReasonResourceNotFound) {
		// Permissions and aggregated APIs appear without an event.
		return queue.Retry()
	}
	return queue.Settled()
}

// compile makes a program of an object that may also be run here and now.
func (f *fleet) compile(ctx context.Context, key queue.Key, declared *object.Object) (*compile.Compiled, error) {
	compiled, err := f.kinds[key.Namespace].Compile(ctx, declared, f.host.environment())
	if err != nil {
		return nil, err
	}
	err = f.rival(key, declared, compiled)
	if err == nil {
		err = f.host.permitted(ctx, compiled)
	}
	if err != nil {
		compiled.Release()
		return nil, err
	}
	return compiled, nil
}

// settle replaces what runs for an object.
func (f *fleet) settle(ctx context.Context, key queue.Key, declared *object.Object, compiled *compile.Compiled, refusal error) {
	m := f.member(key)
	if m.running != nil && refusal == nil && m.running.same(declared, m.object, compiled) {
		compiled.Release()
		return
	}
	former, said := m.running, textOf(m.refusal)
	var next *running
	if refusal == nil {
		next = f.prepare(compiled)
	}
	if former != nil {
		former.end()
	}
	f.mu.Lock()
	m.object, m.refusal, m.running = declared, refusal, next
	f.mu.Unlock()
	if next != nil {
		f.displace(key, declared, next)
		next.launch(ctx)
	}
	if former != nil || next != nil {
		f.wakeRivals(key)
	}
	if refusal == nil || textOf(refusal) != said {
		f.host.log.Info("controller declared", "controller", key.String(), "accepted", refusal == nil, "refusal", textOf(refusal))
	}
}

func textOf(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// same says that an object compiles to what runs already.
func (r *running) same(declared, before *object.Object, compiled *compile.Compiled) bool {
	return declared.UID() == before.UID() && declared.Intent() == before.Intent() &&
		r.Parent == compiled.Parent && reflect.DeepEqual(r.Children, compiled.Children)
}

// member returns the entry of a key, a fresh one if there is none.
func (f *fleet) member(key queue.Key) *member {
	f.mu.Lock()
	defer f.mu.Unlock()
	m := f.members[key]
	if m == nil {
		m = &member{kind: key.Namespace}
		f.members[key] = m
	}
	return m
}

// prepare makes a controller and opens its watches: before those of a former
// one end, so that shared ones go on.
func (f *fleet) prepare(compiled *compile.Compiled) *running {
	return &running{
		Compiled:   compiled,
		controller: engine.New(compiled.Program, f.host.tools()),
		stop:       func() {},
		stopped:    make(chan struct{}),
	}
}

// launch sets it to work: after a former one has ended, so that no two write to
// the same objects.
func (r *running) launch(ctx context.Context) {
	ctx, r.stop = context.WithCancel(ctx)
	go func() {
		defer close(r.stopped)
		r.controller.Run(ctx)
	}()
}

// end stops a controller and waits for its last runs.
func (r *running) end() {
	r.stop()
	<-r.stopped
	r.controller.Close()
	r.Release()
}

// remove ends the controller of an object that is gone.
func (f *fleet) remove(key queue.Key) {
	f.mu.Lock()
	m := f.members[key]
	delete(f.members, key)
	f.mu.Unlock()
	if m == nil {
		return
	}
	if m.running != nil {
		m.running.end()
		f.host.metrics.forget(m.running.Name)
	}
	f.wakeRivals(key)
	f.host.log.Info("controller removed", "controller", key.String())
}

// rival refuses a controller whose parents an older one already cares for: two
// of them would undo each other's work.
func (f *fleet) rival(key queue.Key, declared *object.Object, compiled *compile.Compiled) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for other, m := range f.members {
		if other == key || m.running == nil || !overlap(m.running.Compiled, compiled) {
			continue
		}
		if older(m.object, declared) {
			return conflict(other, compiled)
		}
	}
	return nil
}

// displace ends the younger controllers that a starting one is the rival of,
// before it writes anything.
func (f *fleet) displace(key queue.Key, declared *object.Object, next *running) {
	for other, m := range f.youngerRivals(key, declared, next) {
		m.running.end()
		f.mu.Lock()
		m.running, m.refusal = nil, conflict(key, next.Compiled)
		f.mu.Unlock()
		f.host.log.Info("controller declared", "controller", other.String(), "accepted", false, "refusal", m.refusal.Error())
	}
}

func (f *fleet) youngerRivals(key queue.Key, declared *object.Object, next *running) map[queue.Key]*member {
	f.mu.Lock()
	defer f.mu.Unlock()
	younger := map[queue.Key]*member{}
	for other, m := range f.members {
		if other != key && m.running != nil && overlap(m.running.Compiled, next.Compiled) && older(declared, m.object) {
			younger[other] = m
		}
	}
	return younger
}

// conflict is the refusal of a controller because of an older one.
func conflict(elder queue.Key, compiled *compile.Compiled) error {
	return &compile.Refusal{Reason: setpoint.ReasonConflictingController, Err: fmt.Errorf(
		"%s is already the controller of %s; give each a parentResource.labelSelector that leaves the other's out, or delete one", elder, compiled.Parent)}
}

// overlap says that two controllers would care for the same objects. Two
// different selectors are taken to be meant apart.
func overlap(a, b *compile.Compiled) bool {
	left, right := fmt.Sprint(a.Selections), fmt.Sprint(b.Selections)
	return a.Parent.GroupKind() == b.Parent.GroupKind() &&
		(left == right || len(a.Selections) == 0 || len(b.Selections) == 0)
}

// older orders controllers by their creation, and by name within a second.
func older(a, b *object.Object) bool {
	left, right := string(a.Field("metadata", "creationTimestamp")), string(b.Field("metadata", "creationTimestamp"))
	if left != right {
		return left < right
	}
	return a.APIVersion()+a.Name() < b.APIVersion()+b.Name()
}

// wakeRivals looks again at controllers that a change of this one may have made
// rivals, or freed.
func (f *fleet) wakeRivals(key queue.Key) {
	f.mu.Lock()
	defer f.mu.Unlock()
	changed := f.members[key]
	for other, m := range f.members {
		if other != key && rivalry(changed, m) {
			f.queue.Add(other, queue.Cause{Kind: queue.RelatedChanged, Detail: "CompositeController", Object: key})
		}
	}
}

// rivalry says whether a change of one controller is another's concern: one
// that was refused for a rival may be free now, one that runs may have met an
// older one.
func rivalry(changed, other *member) bool {
	if refusal, ok := errors.AsType[*compile.Refusal](other.refusal); ok {
		return refusal.Reason == setpoint.ReasonConflictingController
	}
	return changed != nil && changed.running != nil && other.running != nil &&
		overlap(changed.running.Compiled, other.running.Compiled)
}
