package engine

import (
	"context"
	"hash/maphash"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/queue"
)

// inputSeed makes the digests of inputs differ from process to process.
var inputSeed = maphash.MakeSeed()

// news says whether there is anything to ask: the input is one the hook has not
// answered, or somebody wants it asked in any case.
func (r *run) news() bool {
	r.input = r.inputOf(r.shownParent())
	if r.input != r.memory.answered {
		return true
	}
	return r.asked == 0 && r.demanded()
}

// demanding are the causes that want the hook asked even about what it has
// answered.
var demanding = [...]queue.CauseKind{queue.Resync, queue.Recheck, queue.Retrying, queue.UserAsked, queue.HookChanged}

// demanded says whether one of the causes does, or whether the last run failed:
// then its answer was not carried out.
func (r *run) demanded() bool {
	for _, kind := range demanding {
		if r.item.Causes.Has(kind) {
			return true
		}
	}
	return r.memory.trouble.failing
}

// inputOf is a digest of what a hook is shown, as far as it is to be asked for
// its sake.
func (r *run) inputOf(parent *object.Object) uint64 {
	var h maphash.Hash
	h.SetSeed(inputSeed)
	maphash.WriteComparable(&h, r.stance)
	maphash.WriteComparable(&h, r.shown.Digest)
	if r.program.StatusWakes {
		maphash.WriteComparable(&h, parent.Digest())
	} else {
		maphash.WriteComparable(&h, essence(parent))
	}
	for _, revision := range r.kept {
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

// ask is the step that calls the hook.
func (r *run) ask(ctx context.Context) error {
	r.asked++
	r.memory.answered = 0
	asked := r.program.Sync
	if r.stance == finalizing {
		asked = r.program.Finalize
	}
	if err := r.recall(); err != nil {
		return err
	}
	wait := r.askFormer(ctx, asked)
	parent := r.shownParent()
	reply, err := r.call(ctx, asked, r.request(parent), r.latestRevision())
	wait()
	if err != nil {
		return hookFailure(r.asks(), err)
	}
	r.reply = reply
	if err := r.doubt(ctx, asked, parent); err != nil {
		return err
	}
	r.blend()
	return nil
}

// asks is the name of the hook that the run asks.
func (r *run) asks() string {
	if r.stance == finalizing {
		return "finalize"
	}
	return "sync"
}

// request shows the hook what is there, without copying any of it.
func (r *run) request(parent *object.Object) *hook.Request {
	request := &hook.Request{
		Controller:      r.program.Object,
		Parent:          r.program.show(parent),
		ParentNamespace: parent.Namespace(),
		Finalizing:      r.stance == finalizing,
		Related:         r.shown.Groups,
		Children:        make([]hook.Group, len(r.children)),
	}
	for i, children := range r.children {
		resource := r.program.Children[i].Resource
		group := hook.Group{APIVersion: resource.APIVersion(), Kind: resource.Kind, Objects: make([]hook.Entry, len(children))}
		for j, child := range children {
			group.Objects[j] = hook.Entry{Namespace: child.Namespace(), Name: child.Name(), Object: r.program.show(child)}
		}
		request.Children[i] = group
	}
	return request
}

// show is an object as the hooks see it.
func (p *Program) show(o *object.Object) []byte {
	if p.Whole {
		return o.Whole()
	}
	return o.JSON()
}
