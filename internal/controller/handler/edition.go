package handler

import (
	"slices"

	"github.com/setpoint-dev/setpoint/internal/object"
)

// edition tells an object that was edited, and whose edit was then taken back, from one that was never edited. The
// digest cannot: a handler that was called for the edit, and did a part of the work, would not see it end.
type edition struct {
	// Generation is that of the object with the digest; 0 if unknown, or if the handler watches nothing that it counts.
	Generation int64 `json:"generation,omitempty"`
	// Counted is a digest of all fields that the generation counts, for a handler that watches some of them.
	Counted string `json:"counted,omitempty"`
}

// countsEdits reports whether the generation of an object counts the changes of fields that a handler watches: those of
// a custom resource outside of metadata and status. Kinds of Kubernetes count others as well.
func (p *Program) countsEdits(h *Handler, o *object.Object) bool {
	if !p.Resource.Custom || !p.Resource.Status || o.Generation() == 0 {
		return false
	}
	isCounted := func(path []string) bool { return path[0] != "metadata" && path[0] != "status" }
	return len(h.Fields) == 0 || slices.ContainsFunc(h.Fields, isCounted)
}

// editionOf returns the edition of an object that a handler has handled: that is stored, or what a response makes of
// it. It is zero if the object is nil, which means unknown.
func (r *run) editionOf(h *Handler, handled *object.Object) edition {
	if handled == nil || !r.program.countsEdits(h, handled) {
		return edition{}
	}
	e := edition{Generation: handled.Generation()}
	if len(h.Fields) > 0 {
		e.Counted = countedDigest(handled)
	}
	if handled != r.Stored && handled.Version() == r.Stored.Version() && countedDigest(handled) != countedDigest(r.Stored) {
		e.Generation++ // The write of the response counts as well.
	}
	return e
}

// isEditUndone reports whether an object has been edited since the edition, and all that was edited is again as it
// was. If other fields have changed as well, it is not known whether watched ones have: then they count as unchanged,
// or each start would repeat the calls of all handlers that watch some fields.
func (p *Program) isEditUndone(h *Handler, since edition, o *object.Object) bool {
	if since.Generation == 0 || !p.countsEdits(h, o) || o.Generation() <= since.Generation {
		return false
	}
	return len(h.Fields) == 0 || since.Counted == countedDigest(o)
}

// countedDigest returns a digest of the fields that the generation of a custom resource counts.
func countedDigest(o *object.Object) string {
	whole := decodeObject(o.JSON())
	for _, name := range []string{"apiVersion", "kind", "metadata", "status"} {
		delete(whole, name)
	}
	return digest(whole)
}
