package composite

import (
	"hash/maphash"
	"slices"
)

// reportResponseEvents sends the events of an applied response. An event that is in every response
// is sent once.
func (r *run) reportResponseEvents() {
	reported := make([]uint64, 0, len(r.response.Events))
	for _, event := range r.response.Events {
		digest := maphash.Comparable(inputSeed, event)
		if !slices.Contains(r.memory.sentEvents, digest) && !slices.Contains(reported, digest) {
			r.SendEvent(event)
		}
		reported = append(reported, digest)
	}
	r.memory.sentEvents = reported
}
