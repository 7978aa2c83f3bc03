package react

import (
	"context"
	"encoding/json"
	"maps"
	"reflect"
	"slices"

	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/trace"
)

// draft is the object as it is to be.
type draft struct {
	// before is the object before anything was stored, status the one it was to get;
	// nil if none was stored.
	before *object.Object
	status map[string]any
	// exact says that nobody may have written to the object meanwhile.
	exact bool
}

// storeObject writes, at once, all that answers change in the object but for its
// status, the record, and whether the object is kept.
func (r *run) storeObject(ctx context.Context, carried []*owed, d draft) error {
	patch := r.contentPatch(carried)
	metadata := r.accounts(carried)
	d.exact = d.exact || metadata["finalizers"] != nil
	if len(patch)+len(metadata) > 0 {
		metadata = combined(metadata, precondition(r.stored, d.exact))
		if err := r.send(ctx, combined(patch, map[string]any{"metadata": metadata})); err != nil {
			return err
		}
	}
	return r.recogniseStored(carried, d, patch)
}

// accounts are what is to be changed in the metadata beside what answers say: the
// record, and whether the object is kept.
func (r *run) accounts(carried []*owed) map[string]any {
	metadata := map[string]any{}
	if text, differs := r.recordText(carried); differs {
		metadata["annotations"] = map[string]any{r.program.Record: text}
	}
	if r.releases(carried) {
		metadata["finalizers"] = without(r.stored.Finalizers(), r.program.Finalizer)
	}
	return metadata
}

// storeAside writes what an answer says of the object, and nothing else.
func (r *run) storeAside(ctx context.Context, o *owed) error {
	carried := []*owed{o}
	if r.program.Resource.Status {
		if _, err := r.storeStatus(ctx, r.statusPatch(carried), true); err != nil {
			return err
		}
	}
	patch := r.contentPatch(carried)
	if patch == nil {
		return nil
	}
	return r.send(ctx, combined(patch, map[string]any{"metadata": precondition(r.stored, true)}))
}

// send patches the object.
func (r *run) send(ctx context.Context, patch map[string]any) error {
	body, err := json.Marshal(patch)
	if err != nil {
		return err
	}
	began := r.account.Now()
	stored, err := r.tools.Writer.Patch(ctx, r.program.Resource, r.stored, body)
	r.account.Wrote(began, trace.Write{Verb: trace.Patch, Resource: r.program.Resource, Part: partOf(patch), Before: r.stored, After: stored, Err: err})
	if err != nil {
		return r.refused("patch", err)
	}
	r.goOnWith(stored)
	return nil
}

// partOf says that a patch is about the metadata alone.
func partOf(patch map[string]any) string {
	if _, metadata := patch["metadata"]; metadata && len(patch) == 1 {
		return "metadata"
	}
	return ""
}

// contentPatch is what answers change in the object, if it makes a difference;
// where the status is no subresource, that too.
func (r *run) contentPatch(carried []*owed) map[string]any {
	var patch map[string]any
	for _, o := range carried {
		if o.answer.Patch != nil {
			patch = combined(patch, tree(o.answer.Patch))
		}
	}
	if !r.program.Resource.Status {
		if status := r.statusPatch(carried); len(status) > 0 {
			patch = combined(patch, map[string]any{"status": status})
		}
	}
	if len(patch) == 0 {
		return nil
	}
	if have := tree(r.stored.JSON()); reflect.DeepEqual(have, merged(have, patch)) {
		return nil
	}
	return patch
}

// recordText is the record as it is to be; nil removes it. What is still owed is
// no part of it.
func (r *run) recordText(carried []*owed) (text any, differs bool) {
	now := r.recorded.with(&r.program, r.memory, func(i int) bool { return !r.memory.owes(i, carried) })
	if maps.Equal(now, r.recorded) {
		return nil, false
	}
	if len(now) == 0 {
		return nil, true
	}
	return now.String(), true
}

// recogniseStored remembers, where the server stored something else than was
// written, that what is there is what was seen. Nobody else can have written it:
// the version said so.
func (r *run) recogniseStored(carried []*owed, d draft, patch map[string]any) error {
	if !d.exact || !r.written {
		return nil
	}
	stored, known := r.watchedIn(r.stored), r.known()
	as := func(o *owed) bool {
		return known[r.program.Handlers[o.call.handler].Name].Seen == stored[o.call.handler]
	}
	if !slices.ContainsFunc(carried, func(o *owed) bool { return o.content() && !as(o) }) {
		return nil
	}
	want, err := r.wantedDigests(d, patch)
	if err != nil {
		return err
	}
	for _, one := range carried {
		i := one.call.handler
		e := known[r.program.Handlers[i].Name]
		if one.content() && e.Seen == want[i] && stored[i] != want[i] {
			m := &r.memory.handlers[i]
			m.stored.recorded, m.stored.actual = want[i], stored[i]
		}
	}
	return nil
}

// wantedDigests are the digests of what the handlers watch of the object as it was
// to be.
func (r *run) wantedDigests(d draft, patch map[string]any) ([]string, error) {
	wanted := tree(d.before.JSON())
	if d.status != nil {
		wanted["status"] = d.status
	}
	o, err := objectOf(merged(wanted, patch))
	if err != nil {
		return nil, err
	}
	return r.program.watchedBy(o), nil
}
