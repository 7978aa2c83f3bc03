package state

import (
	"fmt"
	"net/http"
	"path"
	"slices"
	"strings"

	"github.com/setpoint-dev/setpoint/internal/explore/apiserver"
	"github.com/setpoint-dev/setpoint/internal/explore/world"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// Dependencies are what a search of a group of objects has met: what its steps depend on, and what they change.
type Dependencies struct {
	*Worker

	// names are the objects that existed, paths those of requests for them.
	names map[object.Ref]bool
	paths map[string]bool
	// uids are what the UIDs of these objects begin with, and mentions the beginnings of all UIDs in them, with one of
	// the objects that have it.
	uids     map[string]bool
	mentions map[string]object.Ref
	// loose are the objects without a controller, and items what was reconciled.
	loose []*object.Object
	items []world.Item
	// open says why anything else may matter to the group; empty if not.
	open string
}

// Dependencies returns those of a search from an initial state that has ended.
func (w *Worker) Dependencies(initial *Contents) *Dependencies {
	d := &Dependencies{Worker: w, names: map[object.Ref]bool{}, paths: map[string]bool{}, uids: map[string]bool{},
		mentions: map[string]object.Ref{}}
	common := w.CommonNames(initial)
	bodies := map[uint32]bool{}
	for _, v := range w.versions.values {
		switch {
		case bodies[v.Body]:
			continue
		case common[v.Name] && slices.ContainsFunc(w.versions.values, func(other *Version) bool {
			return other.Name == v.Name && other.Body != v.Body
		}):
			d.open = v.Name.Ref.String() + " changes"
		case !common[v.Name]:
			d.addVersion(v)
		}
		bodies[v.Body] = true
	}
	for _, k := range w.keyLists.values {
		d.addItems(k.items)
	}
	for _, r := range w.requests.values {
		if p, _, _ := strings.Cut(r.Target, "?"); r.Method != http.MethodPost && !d.paths[p] && !d.paths[path.Dir(p)] {
			d.open = fmt.Sprintf("%s %s is requested", r.Method, p)
		}
	}
	return d
}

// CommonNames are those of objects that the API server has by itself, such as namespaces.
func (e *Space) CommonNames(initial *Contents) map[*Name]bool {
	common := map[*Name]bool{}
	for _, at := range initial.Entries {
		common[at.Name] = !e.Seeds[at.Name]
	}
	return common
}

func (d *Dependencies) addVersion(v *Version) {
	d.names[v.Name.Ref] = true
	d.paths[d.Server.Path(v.Name.Ref)] = true
	if prefix := v.Name.uid.Load(); prefix != nil {
		d.uids[*prefix] = true
	}
	for _, uid := range v.uids {
		if len(uid) > apiserver.IncarnationDigits {
			d.mentions[uid[:len(uid)-apiserver.IncarnationDigits]] = v.Name.Ref
		}
	}
	if !world.IsControlled(v.Object) {
		d.loose = append(d.loose, v.Object)
	}
}

func (d *Dependencies) addItems(items []world.Item) {
	for _, item := range items {
		if !slices.ContainsFunc(d.items, func(known world.Item) bool { return world.CompareItems(known, item) == 0 }) {
			d.items = append(d.items, item)
		}
	}
}

// Overlap returns why steps of a group may depend on another one, or change what it depends on; empty if neither. If
// groups do not overlap each other, each step of one is the same whatever the state of the others.
func (d *Dependencies) Overlap(other *Dependencies) string {
	if d.open != "" {
		return d.open
	}
	for ref := range d.names {
		if other.names[ref] {
			return ref.String() + " belongs to both"
		}
	}
	for uid, by := range d.mentions {
		if other.uids[uid] {
			return by.String() + " refers to an object of the other"
		}
	}
	reader, saysReads := d.Process.(world.Reader)
	for _, item := range d.items {
		for _, o := range other.loose {
			if !saysReads || reader.Reads(item, o) {
				return fmt.Sprintf("a reconcile of %s for %s may depend on %s", item.Object, item.Controller, o.Ref().Identity())
			}
		}
	}
	return d.shareEnvironment(other)
}

// shareEnvironment finds claims that pods of the other group could use: the only kind whose model looks at others.
func (d *Dependencies) shareEnvironment(other *Dependencies) string {
	for claim := range d.names {
		for pod := range other.names {
			if claim.Kind.Kind == "PersistentVolumeClaim" && pod.Kind.Kind == "Pod" && claim.Namespace == pod.Namespace {
				return fmt.Sprintf("%s may use %s", pod, claim)
			}
		}
	}
	return ""
}
