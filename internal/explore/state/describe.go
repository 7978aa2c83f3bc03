package state

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/setpoint-dev/setpoint/internal/explore/loop"
	"github.com/setpoint-dev/setpoint/internal/explore/phrase"
	"github.com/setpoint-dev/setpoint/internal/explore/world"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// Describe returns a step in words.
func (w *Worker) Describe(from State, t *Transition) string {
	a := t.Action
	switch a.kind {
	case world.Deliver:
		return w.describeDelivery(from, a)
	case world.Reconcile:
		return fmt.Sprintf("Setpoint reconciles %s%s.", w.reconciled(from, a),
			staleness(from.Stored, w.cached(from.process)))
	case world.Send, world.Reject:
		return w.describeRequest(from, a)
	case world.Restart:
		return fmt.Sprintf("Setpoint ends, and starts again %s.", a.text)
	case world.MakeEdit:
		if world.IsOutage(a.name.Ref) {
			return a.text + "."
		}
		return fmt.Sprintf("A user edits %s: %s%s.", a.name.Ref, a.text, changeOf(from.Stored, t.To.Stored, a.name))
	case world.Interfere:
		return fmt.Sprintf("Another client %s %s.", strings.TrimSuffix(a.text, " it"), a.name.Ref)
	default:
		return fmt.Sprintf("%s %s.", a.name.Ref, a.text)
	}
}

// reconciled returns the object of a run that begins, and its controller.
func (w *Worker) reconciled(from State, a action) string {
	items := from.process.keys.items
	at, _ := slices.BinarySearchFunc(items, world.Item{Controller: a.controller, Key: a.key}, world.CompareItems)
	return items[at].Object.String() + " for " + a.controller
}

func (w *Worker) describeDelivery(from State, a action) string {
	p := from.process
	event, seen := p.events.all[p.events.next(a.name)], p.view.get(a.name)
	text := fmt.Sprintf("The cache of Setpoint hears of %s", a.name.Ref)
	switch {
	case world.IsOutage(a.name.Ref):
		outage, _ := loop.OutageOf(event.Object)
		return fmt.Sprintf("Setpoint notices that %s.", outage)
	case event.Gone:
		return text + ": it is deleted."
	case seen == nil:
		return text + ": it is created."
	default:
		return text + phrase.Changes(seen.Object, event.Object) + "."
	}
}

// staleness returns what a cache does not know yet.
func staleness(at *Contents, seen *view) string {
	var parts []string
	for _, v := range seen.versions {
		switch now := at.Get(v.Name).Version; {
		case now == nil:
			parts = append(parts, v.Name.Ref.String()+", which is gone")
		case now.Body != v.Body:
			parts = append(parts, v.Name.Ref.String()+" as it was before"+phrase.Changes(v.Object, now.Object))
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return "; its cache still has " + phrase.List(parts)
}

// changeOf returns what a step changed of an object.
func changeOf(before, after *Contents, n *Name) string {
	was, is := before.Get(n).Version, after.Get(n).Version
	switch {
	case is == nil:
		return "; it is gone"
	case was == nil:
		return "; it is created"
	}
	return phrase.Changes(was.Object, is.Object)
}

// describeRequest returns what a run requests, and what becomes of it.
func (w *Worker) describeRequest(from State, a action) string {
	p := from.process
	r := p.runOf(world.Item{Controller: a.controller, Key: a.key})
	done := w.Do(from.Stored, r.request)
	changed := w.Changes(from.Stored, done.after)
	text := "Setpoint: " + describeWrite(&r.request.Request, done.Response, changed)
	if a.kind == world.Reject {
		return text + " fails: " + a.text + "."
	}
	if done.Response.Code >= http.StatusBadRequest {
		return text + " fails: " + cmp.Or(phrase.Message(done.Response.Body), http.StatusText(done.Response.Code)) + "."
	}
	if len(changed) > 0 && changed[0].Before != nil && !changed[0].After.Gone {
		text += phrase.Changes(changed[0].Before.Object, changed[0].After.Object)
	}
	return text + "."
}

// describeWrite returns such as "create Pod default/web-0": what a request has changed, or else what it requested.
func describeWrite(r *loop.Request, response loop.Response, changed []Change) string {
	target, _, _ := strings.Cut(r.Target, "?")
	subresource := ""
	if strings.HasSuffix(target, "/status") {
		subresource = " (status)"
	}
	if len(changed) > 0 {
		e := effectOn(changed)
		return map[operation]string{Created: "create ", updated: "update ", Deleted: "delete "}[e.What] + e.Name.Ref.String() + subresource
	}
	verb := map[string]string{http.MethodPost: "create ", http.MethodDelete: "delete ", http.MethodGet: "read "}[r.Method]
	verb = cmp.Or(verb, "update ")
	for _, body := range [][]byte{r.Body, response.Body} {
		if o, err := object.Parse(body); err == nil && o.Name() != "" {
			return verb + o.Ref().String() + subresource
		}
	}
	return verb + target
}
