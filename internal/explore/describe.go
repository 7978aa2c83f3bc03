package explore

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/setpoint-dev/setpoint/internal/explore/loop"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// describe returns a step in words.
func (w *worker) describe(from state, t *transition) string {
	a := t.action
	switch a.kind {
	case deliver:
		return w.describeDelivery(from, a)
	case reconcile:
		return fmt.Sprintf("Setpoint reconciles %s%s.", w.reconciled(from, a),
			staleness(from.stored, w.cached(from.processes.all[a.process])))
	case send, reject:
		return w.describeRequest(from, a)
	case restart:
		return fmt.Sprintf("Setpoint%s ends, and starts again %s.", w.processName(a.process), a.text)
	case edit:
		if isOutage(a.name.ref) {
			return a.text + "."
		}
		return fmt.Sprintf("A user edits %s: %s%s.", a.name.ref, a.text, changeOf(from.stored, t.to.stored, a.name))
	case interfere:
		return fmt.Sprintf("Another client %s %s.", strings.TrimSuffix(a.text, " it"), a.name.ref)
	default:
		return fmt.Sprintf("%s %s.", a.name.ref, a.text)
	}
}

func (w *worker) processName(i int) string {
	if len(w.Controllers) == 1 {
		return ""
	}
	return " (" + w.Controllers[i].Name + ")"
}

// reconciled returns the object of a run that begins, and its controller.
func (w *worker) reconciled(from state, a action) string {
	items := from.processes.all[a.process].keys.items
	at, _ := slices.BinarySearchFunc(items, Item{Controller: a.controller, Key: a.key}, compareItems)
	return items[at].Object.String() + " for " + a.controller
}

func (w *worker) describeDelivery(from state, a action) string {
	p := from.processes.all[a.process]
	event, seen := p.events.all[p.events.next(a.name)], p.view.get(a.name)
	text := fmt.Sprintf("The cache of Setpoint%s hears of %s", w.processName(a.process), a.name.ref)
	switch {
	case isOutage(a.name.ref):
		outage, _ := loop.OutageOf(event.object)
		return fmt.Sprintf("Setpoint%s notices that %s.", w.processName(a.process), outage)
	case event.gone:
		return text + ": it is deleted."
	case seen == nil:
		return text + ": it is created."
	default:
		return text + fieldChanges(seen.object, event.object) + "."
	}
}

// staleness returns what a cache does not know yet.
func staleness(at *stored, seen *view) string {
	var parts []string
	for _, v := range seen.versions {
		switch now := at.get(v.name).version; {
		case now == nil:
			parts = append(parts, v.name.ref.String()+", which is gone")
		case now.body != v.body:
			parts = append(parts, v.name.ref.String()+" as it was before"+fieldChanges(v.object, now.object))
		}
	}
	text := ""
	if len(parts) > 0 {
		text = "; its cache still has " + shortList(parts)
	}
	return text
}

// changeOf returns what a step changed of an object.
func changeOf(before, after *stored, n *name) string {
	was, is := before.get(n).version, after.get(n).version
	switch {
	case is == nil:
		return "; it is gone"
	case was == nil:
		return "; it is created"
	}
	return fieldChanges(was.object, is.object)
}

// describeRequest returns what a run requests, and what becomes of it.
func (w *worker) describeRequest(from state, a action) string {
	p := from.processes.all[a.process]
	r := p.runOf(Item{Controller: a.controller, Key: a.key})
	done := w.do(from.stored, r.request)
	changed := w.changes(from.stored, done.after)
	text := fmt.Sprintf("Setpoint%s: %s", w.processName(a.process), describeWrite(&r.request.Request, done.response, changed))
	if a.kind == reject {
		return text + " fails: " + a.text + "."
	}
	if done.response.Code >= http.StatusBadRequest {
		return text + " fails: " + cmp.Or(statusMessage(done.response.Body), http.StatusText(done.response.Code)) + "."
	}
	if len(changed) > 0 && changed[0].before != nil && !changed[0].after.gone {
		text += fieldChanges(changed[0].before.object, changed[0].after.object)
	}
	return text + "."
}

// describeWrite returns such as "create Pod default/web-0": what a request has changed, or else what it requested.
func describeWrite(r *loop.Request, response loop.Response, changed []difference) string {
	if len(changed) == 0 {
		return describeRequest(r, response)
	}
	e := effectOn(changed)
	target, _, _ := strings.Cut(r.Target, "?")
	return map[operation]string{created: "create ", updated: "update ", deleted: "delete "}[e.what] + e.name.ref.String() +
		subresource(target)
}

// describeRequest returns such as "create Pod default/web-0".
func describeRequest(r *loop.Request, response loop.Response) string {
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
