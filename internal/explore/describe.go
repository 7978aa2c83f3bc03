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

// maxListed bounds what one sentence lists.
const maxListed = 3

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
		if isOutage(a.name) {
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
	if len(w.options.Controllers) == 1 {
		return ""
	}
	return " (" + w.options.Controllers[i].Name + ")"
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
	case isOutage(a.name):
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

// fieldChanges returns such as ": spec.image is "b", was "a"".
func fieldChanges(before, after *object.Object) string {
	a, errA := object.Decode(before.JSON())
	b, errB := object.Decode(after.JSON())
	if errA != nil || errB != nil {
		return ""
	}
	var parts []string
	for _, c := range object.Changes(a, b) {
		// Users look for what they wrote, not for what API servers and clients keep beside it.
		if !strings.HasPrefix(c.Path, "metadata.") || strings.HasPrefix(c.Path, "metadata.labels") ||
			strings.HasPrefix(c.Path, "metadata.deletion") {
			parts = append(parts, fmt.Sprintf("%s is %s, was %s", c.Path, orAbsent(c.To), orAbsent(c.From)))
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return " (" + shortList(parts) + ")"
}

func shortList(parts []string) string {
	if len(parts) > maxListed {
		parts = append(slices.Clone(parts[:maxListed]), fmt.Sprintf("%d more", len(parts)-maxListed))
	}
	return strings.Join(parts, "; ")
}

// describeRequest returns what a run requests, and what becomes of it.
func (w *worker) describeRequest(from state, a action) string {
	p := from.processes.all[a.process]
	r := p.runOf(Item{Controller: a.controller, Key: a.key})
	done := w.do(from.stored, r.request)
	changed := changes(w.engine, from.stored, done.after)
	text := fmt.Sprintf("Setpoint%s: %s", w.processName(a.process), describeWrite(&r.request.Request, done.response, changed))
	if a.kind == reject {
		return text + " fails: " + a.text + "."
	}
	if done.response.Status >= http.StatusBadRequest {
		return text + " fails: " + cmp.Or(statusMessage(done.response.Body), http.StatusText(done.response.Status)) + "."
	}
	if len(changed) > 0 && changed[0].before != nil && !changed[0].after.gone {
		text += fieldChanges(changed[0].before.object, changed[0].after.object)
	}
	return text + "."
}

func statusMessage(body []byte) string {
	fields, err := object.Decode(body)
	if err != nil {
		return ""
	}
	message, _ := fields["message"].(string)
	return message
}
