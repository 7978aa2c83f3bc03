package explore

import (
	"fmt"
	"net/http"
	"path"
	"slices"
	"strings"

	"github.com/setpoint-dev/setpoint/internal/object"
)

// footprint is what a search of a group of objects has met: what its steps depend on, and what they change.
type footprint struct {
	*worker

	// names are the objects that existed, paths those of requests for them.
	names map[object.Ref]bool
	paths map[string]bool
	// uids are what the UIDs of these objects begin with, and mentions the beginnings of all UIDs in them, with one of
	// the objects that have it.
	uids     map[string]bool
	mentions map[string]object.Ref
	// loose are the objects without a controller, and items what was reconciled.
	loose []*object.Object
	items []Item
	// open says why anything else may matter to the group; empty if not.
	open string
}

// footprint returns that of a search from an initial state that has ended.
func (w *worker) footprint(initial *stored) *footprint {
	f := &footprint{worker: w, names: map[object.Ref]bool{}, paths: map[string]bool{}, uids: map[string]bool{},
		mentions: map[string]object.Ref{}}
	common := w.commonNames(initial)
	bodies := map[uint32]bool{}
	for _, v := range w.versions.values {
		switch {
		case bodies[v.body]:
			continue
		case common[v.name] && slices.ContainsFunc(w.versions.values, func(other *version) bool {
			return other.name == v.name &&
				other.body != v.body
		}):
			f.open = v.name.ref.String() + " changes"
		case !common[v.name]:
			f.addVersion(v)
		}
		bodies[v.body] = true
	}
	for _, k := range w.keyLists.values {
		f.addItems(k.items)
	}
	for _, r := range w.requests.values {
		if p, _, _ := strings.Cut(r.Target, "?"); r.Method != http.MethodPost && !f.paths[p] && !f.paths[path.Dir(p)] {
			f.open = fmt.Sprintf("%s %s is requested", r.Method, p)
		}
	}
	return f
}

// commonNames are those of objects that the API server has by itself, such as namespaces.
func (e *engine) commonNames(initial *stored) map[*name]bool {
	common := map[*name]bool{}
	for _, at := range initial.slots {
		common[at.name] = !e.seeds[at.name]
	}
	return common
}

func (f *footprint) addVersion(v *version) {
	f.names[v.name.ref] = true
	f.paths[f.Server.Path(v.name.ref)] = true
	if prefix := v.name.uid.Load(); prefix != nil {
		f.uids[*prefix] = true
	}
	for _, uid := range v.uids {
		if len(uid) > birthSize {
			f.mentions[uid[:len(uid)-birthSize]] = v.name.ref
		}
	}
	if !isControlled(v.object) {
		f.loose = append(f.loose, v.object)
	}
}

func (f *footprint) addItems(items []Item) {
	for _, item := range items {
		if !slices.ContainsFunc(f.items, func(known Item) bool { return compareItems(known, item) == 0 }) {
			f.items = append(f.items, item)
		}
	}
}

// touches returns why steps of a group may depend on another one, or change what it depends on; empty if neither. If
// groups do not touch each other, each step of one is the same whatever the state of the others.
func (f *footprint) touches(other *footprint) string {
	if f.open != "" {
		return f.open
	}
	for ref := range f.names {
		if other.names[ref] {
			return ref.String() + " belongs to both"
		}
	}
	for uid, by := range f.mentions {
		if other.uids[uid] {
			return by.String() + " refers to an object of the other"
		}
	}
	for _, item := range f.items {
		for _, o := range other.loose {
			if f.reads(item, o) {
				return fmt.Sprintf("a reconcile of %s for %s may depend on %s", item.Object, item.Controller, o.Ref().Identity())
			}
		}
	}
	return f.shareEnvironment(other)
}

func (f *footprint) reads(item Item, o *object.Object) bool {
	return slices.ContainsFunc(f.processes, func(p Process) bool {
		reader, is := p.(Reader)
		return !is || reader.Reads(item, o)
	})
}

// shareEnvironment finds claims that pods of the other group could use: the only kind whose model looks at others.
func (f *footprint) shareEnvironment(other *footprint) string {
	for claim := range f.names {
		for pod := range other.names {
			if claim.Kind.Kind == "PersistentVolumeClaim" && pod.Kind.Kind == "Pod" && claim.Namespace == pod.Namespace {
				return fmt.Sprintf("%s may use %s", pod, claim)
			}
		}
	}
	return ""
}
