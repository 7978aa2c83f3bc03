package engine

import (
	"hash/maphash"

	"github.com/setpoint-dev/setpoint/internal/object"
)

// repeats says that the hook has given the very answer which led to nothing when
// parent and children were the very same. It would do so again, and need not be
// understood once more: most answers to a resync, or to a change of a related
// object, are of that sort.
func (r *run) repeats() bool { return r.memory.idle != 0 && r.memory.idle == r.scene(r.parent) }

// scene is a digest of all that decide looks at. It is 0 where decide has more to
// look at: revisions and their replies, what a decorator sets, and the times of
// conditions.
func (r *run) scene(parent *object.Object) uint64 {
	if r.revisions != nil || r.program.decorates() || r.reply == nil || len(r.reply.Conditions) > 0 {
		return 0
	}
	var h maphash.Hash
	h.SetSeed(inputSeed)
	maphash.WriteComparable(&h, r.stance)
	maphash.WriteComparable(&h, parent.Digest())
	for _, children := range r.children {
		maphash.WriteComparable(&h, len(children))
		for _, child := range children {
			maphash.WriteComparable(&h, child.Digest())
		}
	}
	for _, child := range r.reply.Children {
		maphash.WriteComparable(&h, object.DigestOf(child))
	}
	maphash.WriteComparable(&h, object.DigestOf(r.reply.Status))
	maphash.WriteComparable(&h, r.reply.Finalized)
	h.WriteString(r.reply.Message)
	return max(h.Sum64(), 1)
}
