package explore

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/setpoint-dev/setpoint/internal/object"
)

// maxRequests bounds the requests of one reconcile at rest.
const maxRequests = 100

// checkRest checks a state in which nothing changes any more.
func (s *search) checkRest(id uint32) {
	at := s.unpack(s.nodes[id].state)
	report := func(property Property, text string) {
		if text != "" {
			s.violated(finding{property: property, text: text}, s.path(id), -1)
		}
	}
	report(Finalized, s.deletingAtRest(at))
	report(Owned, s.leftOver(at.stored))
	undesired, failure := s.undesired(at)
	report(Desired, undesired)
	if !s.violates(Valid) { // Else a write that is refused for good, or a panic, is the failure.
		report(Reconciled, failure)
	}
	for _, f := range s.broken(at.stored, true) {
		s.violated(f, s.path(id), -1)
	}
	if failure == "" {
		s.checkSameEnd(id, at)
	}
}

// deletingAtRest finds an object that is being deleted for ever, although nothing but finalizers holds it. Namespaces come
// last: what is in them holds them.
func (s *search) deletingAtRest(at state) string {
	var held *name
	for _, one := range at.stored.slots {
		switch {
		case one.version == nil || !one.version.object.Deleting():
		case s.heldByOutage(at, one.name):
			return "" // What holds it may hold its namespace and its owner, too.
		case held == nil || held.ref.GroupKind() == object.Namespaces.GroupKind():
			held = one.name
		}
	}
	if held == nil {
		return ""
	}
	return fmt.Sprintf("%s is being deleted for ever; its finalizers: %s",
		held.ref, strings.Join(at.stored.get(held).version.object.Finalizers(), ", "))
}

// leftOver finds what runs have created and left behind: objects without an owner, though all objects are gone whose
// runs have created them.
func (s *search) leftOver(at *stored) string {
	for _, one := range at.slots {
		creators := s.creators[one.name]
		if one.version == nil || len(creators) == 0 || len(one.version.object.Field("metadata", "ownerReferences")) > 0 {
			continue
		}
		if !slices.ContainsFunc(creators, func(n *name) bool { return at.get(n).version != nil }) {
			return fmt.Sprintf("%s has no owner, and stays though %s is gone", one.name.ref, creators[0].ref)
		}
	}
	return ""
}

// noteCreator notes whose run has created an object.
func (s *search) noteCreator(e *effect) {
	if e.by != nil && !slices.Contains(s.creators[e.name], e.by) {
		s.creators[e.name] = append(s.creators[e.name], e.by)
	}
}

// undesired reconciles everything once more. It returns what would be written, and which run fails.
func (s *search) undesired(at state) (text, fails string) {
	w := s.workers[0]
	for i, p := range at.processes.all {
		for _, item := range w.started(i, p.view) {
			wrote, failure := s.writesAtRest(w, w.begin(i, item, p.view), at.stored)
			if wrote != "" {
				return wrote, ""
			}
			if failure != nil {
				s.notes[s.layer].add(notes{failing: 1, failure: failure.Error()})
				return "", fmt.Sprintf("every reconcile of %s for %s fails: %v", item.Object, item.Controller, failure)
			}
		}
	}
	return "", ""
}

func (s *search) writesAtRest(w *worker, r *run, at *stored) (wrote string, failure error) {
	for range maxRequests {
		step := w.next(r)
		if step.End != nil {
			return "", step.End.Err
		}
		done := w.do(at, r.request)
		if done.after != at {
			return fmt.Sprintf("one more reconcile of %s writes: %s", r.item.Key,
				describeWrite(&r.request.Request, done.response, changes(w.engine, at, done.after))), nil
		}
		r = w.after(r, done.response)
	}
	return "", nil
}

// describeWrite returns such as "create Pod default/web-0": what a request has changed, or else what it requested.
func describeWrite(r *Request, response Response, changed []difference) string {
	if len(changed) == 0 {
		return describeRequest(r, response)
	}
	e := effectOn(changed)
	target, _, _ := strings.Cut(r.Target, "?")
	return map[operation]string{created: "create ", updated: "update ", deleted: "delete "}[e.what] + e.name.ref.String() +
		subresource(target)
}

// describeRequest returns such as "create Pod default/web-0".
func describeRequest(r *Request, response Response) string {
	verb := map[string]string{http.MethodPost: "create", http.MethodDelete: "delete", http.MethodGet: "read"}[r.Method]
	target, _, _ := strings.Cut(r.Target, "?")
	for _, body := range [][]byte{r.Body, response.Body} {
		if o, err := object.Parse(body); err == nil && o.Name() != "" {
			return cmp.Or(verb, "update") + " " + o.Ref().String() + subresource(target)
		}
	}
	return cmp.Or(verb, "update") + " " + target
}

func subresource(target string) string {
	if strings.HasSuffix(target, "/status") {
		return " (status)"
	}
	return ""
}
