package compose

import (
	"context"
	"hash/maphash"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/queue"
)

// inputSeed makes the digests of inputs differ from process to process.
var inputSeed = maphash.MakeSeed()

// inputChanged says whether there is anything to ask: the input is one the hook has not
// answered, or somebody wants it asked in any case.
func (r *run) inputChanged() bool {
	r.inputDigest = r.digestInput(r.visibleParent())
	if r.inputDigest != r.memory.syncedInput {
		return true
	}
	return r.calls == 0 && r.mustCall()
}

// forceCallCauses are the causes that want the hook asked even about what it has
// answered.
var forceCallCauses = [...]queue.CauseKind{queue.Resync, queue.RequeueAfter, queue.Retrying, queue.ReconcileRequested, queue.HookChanged}

// mustCall says whether one of the causes does, or whether the last run failed:
// then its answer was not carried out.
func (r *run) mustCall() bool {
	for _, kind := range forceCallCauses {
		if r.item.Causes.Has(kind) {
			return true
		}
	}
	return r.memory.result.failing
}

// digestInput is a digest of what a hook is shown, as far as it is to be asked for
// its sake.
func (r *run) digestInput(parent *object.Object) uint64 {
	var h maphash.Hash
	h.SetSeed(inputSeed)
	maphash.WriteComparable(&h, r.phase)
	maphash.WriteComparable(&h, r.relatedObjects.Digest)
	if r.program.SyncOnStatusChange {
		maphash.WriteComparable(&h, parent.Digest())
	} else {
		maphash.WriteComparable(&h, contentDigest(parent))
	}
	for _, revision := range r.storedRevisions {
		maphash.WriteComparable(&h, revision.Digest())
	}
	for _, children := range r.children {
		maphash.WriteComparable(&h, len(children))
		for _, child := range children {
			maphash.WriteComparable(&h, child.Digest())
		}
	}
	return max(h.Sum64(), 1)
}

// callHook is the step that calls the hook.
func (r *run) callHook(ctx context.Context) error {
	r.calls++
	r.memory.syncedInput = 0
	asked := r.program.Sync
	if r.phase == phaseFinalizing {
		asked = r.program.Finalize
	}
	if err := r.loadRevisions(); err != nil {
		return err
	}
	wait := r.callFormer(ctx, asked)
	parent := r.visibleParent()
	response, err := r.call(ctx, asked, r.request(parent), r.latestRevision())
	wait()
	if err != nil {
		return hookFailure(r.hookName(), err)
	}
	r.response = response
	if err := r.checkDeterminism(ctx, asked, parent); err != nil {
		return err
	}
	r.mergeResponses()
	return nil
}

// hookName is the name of the hook that the run asks.
func (r *run) hookName() string {
	if r.phase == phaseFinalizing {
		return "finalize"
	}
	return "sync"
}

// request shows the hook what is there, without copying any of it.
func (r *run) request(parent *object.Object) *hook.Request {
	request := &hook.Request{
		Controller:      r.program.Object,
		Parent:          r.program.objectJSON(parent),
		ParentNamespace: parent.Namespace(),
		Finalizing:      r.phase == phaseFinalizing,
		Related:         r.relatedObjects.Groups,
		Children:        make([]hook.Group, len(r.children)),
	}
	for i, children := range r.children {
		resource := r.program.Children[i].Resource
		group := hook.Group{APIVersion: resource.APIVersion(), Kind: resource.Kind, Objects: make([]hook.Entry, len(children))}
		for j, child := range children {
			group.Objects[j] = hook.Entry{Namespace: child.Namespace(), Name: child.Name(), Object: r.program.objectJSON(child)}
		}
		request.Children[i] = group
	}
	return request
}

// objectJSON is an object as the hooks see it.
func (p *Program) objectJSON(o *object.Object) []byte {
	if p.FullObjects {
		return o.JSONWithManagedFields()
	}
	return o.JSON()
}
