package handler

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/controller/trigger"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// changingHandlers are the handlers of a scenario that change what they watch. Each sets only members with its own name,
// which no other client sets, so every call for a change has a cause that is known here.
func changingHandlers() []trigger.Handler {
	both := []hook.Reason{hook.ReasonCreate, hook.ReasonUpdate}
	fields := func(own ...string) [][]string { return [][]string{{"spec", "n"}, own} }
	grows := func(reason hook.Reason, old, now *object.Object) (bool, error) {
		n := func(o *object.Object) int64 { return intIn(object.DecodeOrEmpty(o.JSON()), "spec", "n") }
		return reason == hook.ReasonTimer || old != nil && n(now) > n(old), nil
	}
	return []trigger.Handler{
		{Name: "whole", On: []hook.Reason{hook.ReasonCreate, hook.ReasonUpdate, hook.ReasonDrift}, Backoff: scenarioBackoff},
		{Name: "ticker", On: []hook.Reason{hook.ReasonUpdate}, Fields: fields("metadata", "labels", "ticker"), Every: 5 * scenarioTimer, Backoff: scenarioBackoff},
		{Name: "grow", On: []hook.Reason{hook.ReasonUpdate}, Fields: fields("metadata", "labels", "grow"), Expression: grows, Every: 5 * scenarioTimer, Backoff: scenarioBackoff},
		{Name: "maybe", On: both, Fields: fields("metadata", "annotations", "maybe"), Conditional: true, Backoff: scenarioBackoff},
		{Name: "steps", On: both, Fields: fields("metadata", "labels", "steps"), Backoff: scenarioBackoff},
		{Name: "both", On: both, Fields: append(fields("status", "both"), []string{"metadata", "labels", "both"}), Backoff: scenarioBackoff},
	}
}

// ownFields are the fields that a changing handler may set.
func ownFields(handler string) [][]string {
	return [][]string{{"spec", handler}, {"metadata", "labels", handler}, {"metadata", "annotations", handler}, {"status", handler}}
}

// callModel knows of each stored version how often others have changed what a changing handler watches, and what each of
// these handlers has seen.
type callModel struct {
	t        *testing.T
	handlers []trigger.Handler

	mu sync.Mutex
	// changes counts, by handler and version, the changes by others since the creation.
	changes map[string]map[string]int
	// seen has what handlers saw last, by handler and UID.
	seen map[string]sight
	// drifts counts the changes by users of what handlers own, less the calls for them, by UID.
	drifts map[string]int
	// atRest means that nothing may call a handler.
	atRest bool
}

// unknownState is no count of changes: any state is another one.
const unknownState = -1

// sight is what a handler saw last for a change.
type sight struct {
	process *process
	changes int
	// settled means that it has succeeded, so that only another change may call it. inProgress means that its calls
	// count from the first of them.
	settled, inProgress bool
}

func newCallModel(t *testing.T) *callModel {
	m := &callModel{t: t, handlers: changingHandlers(), changes: map[string]map[string]int{}, seen: map[string]sight{}, drifts: map[string]int{}}
	for i := range m.handlers {
		m.changes[m.handlers[i].Name] = map[string]int{}
	}
	return m
}

// stores notes that the server is about to store an object with a version.
func (m *callModel) stores(version int, was, now map[string]any) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range m.handlers {
		h := &m.handlers[i]
		n := 0
		if was != nil {
			n = m.changes[h.Name][text(field(was, "metadata", "resourceVersion"))]
			if m.othersPart(h, was) != m.othersPart(h, now) {
				n++
			}
		}
		m.changes[h.Name][text(strconv.Itoa(version))] = n
	}
}

// othersPart returns what a handler watches and does not set.
func (m *callModel) othersPart(h *trigger.Handler, o map[string]any) string {
	part := h.WatchedFields(parse(m.t, text(o)))
	for _, path := range ownFields(h.Name) {
		parent, _ := field(part, path[:len(path)-1]...).(map[string]any)
		delete(parent, path[len(path)-1])
	}
	for _, path := range [][]string{{"metadata", "labels"}, {"metadata", "annotations"}, {"metadata"}, {"spec"}, {"status"}} {
		parent, _ := field(part, path[:len(path)-1]...).(map[string]any)
		if members, _ := field(part, path...).(map[string]any); len(members) == 0 {
			delete(parent, path[len(path)-1])
		}
	}
	return text(part)
}

func ownPart(handler string, o map[string]any) string {
	var own []any
	for _, path := range ownFields(handler) {
		own = append(own, field(o, path...))
	}
	return text(own)
}

// calls checks a call and returns what its handler sees.
func (m *callModel) calls(p *process, key string, n *hook.HandlerRequest) sight {
	m.mu.Lock()
	defer m.mu.Unlock()
	o := object.DecodeOrEmpty(n.Object)
	was, known := m.seen[key]
	changes, stored := m.changes[n.Handler][text(field(o, "metadata", "resourceVersion"))]
	same := known && was.process == p && was.settled
	switch {
	case !stored:
		m.t.Errorf("%s: %s of an object that was never stored: %s", key, n.Reason, n.Object)
	case m.atRest && n.Reason != hook.ReasonTimer:
		m.t.Errorf("%s: %s at rest; changes %v", key, n.Reason, n.Changes)
	case n.Reason == hook.ReasonDrift:
		if m.drifts[key] == 0 && same {
			m.t.Errorf("%s: Drift, and no other client changed what it owns", key)
		}
		m.drifts[key] = max(0, m.drifts[key]-1) // A call that another process repeats needs no change of its own.
	case n.Reason == hook.ReasonCreate && same:
		m.t.Errorf("%s: Create once more", key)
	case n.Reason == hook.ReasonUpdate && (same && changes == was.changes || !known && changes == 0):
		m.t.Errorf("%s: Update, and no other client changed what it watches since; changes %v", key, n.Changes)
	case n.Reason == hook.ReasonUpdate && same && n.PreviousState != nil:
		if before, now := ownPart(n.Handler, object.DecodeOrEmpty(n.PreviousState)), ownPart(n.Handler, o); before != now {
			m.t.Errorf("%s: Update with its own changes, from %s to %s; changes %v", key, before, now, n.Changes)
		}
	}
	switch {
	case len(n.Progress) > 0 && (was.process != p || !was.inProgress):
		// The handler may have been done, but that was not recorded: the process ended, or another call replaced the
		// response. The progress, and so the state from which its calls count, are those of an earlier call.
		changes = unknownState
	case was.inProgress:
		changes = was.changes
	}
	now := sight{process: p, changes: changes}
	if n.Reason == hook.ReasonTimer && !known {
		// A timer runs only while no change waits for a call, so the first sight was of this state.
		m.seen[key] = sight{process: p, changes: changes, settled: true}
	}
	return now
}

// responded notes the response to a call for a change.
func (m *callModel) responded(key string, n *hook.HandlerRequest, now sight, response *hook.HandlerResponse, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	was := m.seen[key]
	switch {
	case n.Reason == hook.ReasonDrift:
		if err != nil {
			m.drifts[key]++
			was.settled = false // The call has replaced a response that was not written yet.
			m.seen[key] = was
		}
	case n.Reason != hook.ReasonCreate && n.Reason != hook.ReasonUpdate:
	case err != nil || response.NotApplicable || response.Err != nil && response.Progress == nil:
		was.process, was.settled = now.process, false
		m.seen[key] = was
	default:
		now.inProgress = response.Progress != nil
		now.settled = response.Err == nil && response.RetryAfter == 0
		m.seen[key] = now
	}
}

// unknown notes that a write was stored, and its response lost: it may look like that of another client.
func (m *callModel) unknown(path string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, rate, isRate := strings.Cut(path, "/rates/")
	name, _, _ := strings.Cut(rate, "/")
	for key, s := range m.seen {
		switch {
		case !isRate:
			m.drifts[key]++
		case strings.Fields(key)[1] == name:
			s.settled = false
			m.seen[key] = s
		}
	}
}

// handleChanging is the function of the changing handlers.
func (sc *scenario) handleChanging(p *process, n *hook.HandlerRequest) (response *hook.HandlerResponse, err error) {
	o := object.DecodeOrEmpty(n.Object)
	key := n.Handler + " " + n.Name + " " + text(field(o, "metadata", "uid"))
	now := sc.model.calls(p, key, n)
	if sc.chance(10) {
		elapse(time.Duration(sc.random(500)) * time.Millisecond)
	}
	response, err = sc.change(n, intIn(o, "spec", "n"))
	sc.model.responded(key, n, now, response, err)
	return response, err
}

// change returns a response that sets the members of a handler.
func (sc *scenario) change(n *hook.HandlerRequest, number int64) (*hook.HandlerResponse, error) {
	if sc.chance(12) {
		return nil, errors.New("not today")
	}
	value := strconv.FormatInt(number, 10)
	patch := map[string]any{"metadata": map[string]any{"labels": map[string]any{n.Handler: value}}}
	response := &hook.HandlerResponse{}
	switch n.Handler {
	case "whole":
		if sc.random(2) == 0 {
			patch["spec"] = map[string]any{"whole": number}
		}
		response.Apply = []hook.AppliedObject{sc.applied("shared-"+n.Name, value), sc.applied("own-"+n.Name, value)}
		response.Delete = []hook.Deletion{{APIVersion: "v1", Kind: "Pod", Selector: "app=" + n.Name, Evict: true}}
	case "ticker", "grow":
		if sc.chance(2) {
			return response, nil
		}
		response.Apply = []hook.AppliedObject{sc.applied("shared-"+n.Name+"-"+n.Handler, value)}
	case "maybe":
		if sc.chance(3) {
			return &hook.HandlerResponse{NotApplicable: true}, nil
		}
		patch = map[string]any{"metadata": map[string]any{"annotations": map[string]any{"maybe": value}}}
		response.Apply = []hook.AppliedObject{sc.applied("shared-"+n.Name+"-maybe", value)}
	case "steps":
		sc.takeStep(n, response)
	case "both":
		response.Status = json.RawMessage(`{"both":` + value + `}`)
	}
	response.Patch = json.RawMessage(text(patch))
	return response, nil
}

// takeStep is one of three steps of a handler with progress.
func (sc *scenario) takeStep(n *hook.HandlerRequest, into *hook.HandlerResponse) {
	done := intIn(object.DecodeOrEmpty(n.Progress), "done") + 1
	switch {
	case sc.chance(5):
		into.Err = errors.New("not this step")
	case done < 3:
		into.RetryAfter = time.Duration(1+sc.random(2000)) * time.Millisecond
	default:
		return
	}
	if into.Err == nil || sc.random(2) == 0 {
		into.Progress = json.RawMessage(fmt.Sprintf(`{"done":%d}`, done))
	}
}

func (sc *scenario) applied(name, value string) hook.AppliedObject {
	return hook.AppliedObject{Object: configMapWith(name, value)}
}

// refuses returns the status code of a refused write, of another object or of a part of this one.
func (sc *scenario) refuses(path string, body map[string]any) int {
	others := []int{http.StatusUnprocessableEntity, http.StatusBadRequest, http.StatusInternalServerError}
	switch {
	case strings.HasSuffix(path, "/eviction") && sc.chance(2):
		return http.StatusTooManyRequests
	case strings.Contains(path, "/configmaps") && sc.chance(4):
		return others[sc.random(len(others))]
	case field(body, "metadata", "labels") != nil && sc.chance(6), field(body, "status", "refused") != nil && !sc.noFaults.Load():
		return http.StatusUnprocessableEntity
	}
	return 0
}

// disturb changes, as another client, what handlers apply or evict, or takes its name.
func (sc *scenario) disturb(name string) {
	o := sc.s.get(rates, name)
	uid := text(field(o, "metadata", "uid"))
	switch owned := sc.s.get(configMaps, "own-"+name); sc.random(5) {
	case 0:
		if sc.s.get(configMaps, "shared-"+name) == nil {
			sc.s.create(configMaps, "shared-"+name, `{}`)
		}
	case 1:
		sc.collect(name, false)
	case 2:
		sc.s.create(pods, fmt.Sprint("pod-", sc.random(1000)), `{"metadata":{"labels":{"app":"`+name+`"}}}`)
	case 3:
		if owned != nil && text(owned["metadata"]) != "" && strings.Contains(text(owned), uid) {
			sc.model.drifted("whole " + name + " " + uid)
			sc.s.edit(configMaps, "own-"+name, fmt.Sprintf(`{"data":{"n":"user %d"}}`, sc.random(1000)))
		}
	case 4:
		if o != nil {
			owner := `{"apiVersion":"example.org/v1","kind":"Rate","name":"` + name + `","uid":` + uid + `,"controller":true}`
			sc.s.create(configMaps, "anothers-"+name, fmt.Sprintf(`{"metadata":{"ownerReferences":[%s]},"data":{"n":"%d"}}`, owner, sc.random(1000)))
		}
	}
}

func (m *callModel) drifted(key string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.drifts[key]++
}

// collect deletes ConfigMaps that an object does not own: taken ones, and those of a former object.
func (sc *scenario) collect(name string, all bool) {
	uid := text(field(sc.s.get(rates, name), "metadata", "uid"))
	for _, one := range []string{"own-" + name, "shared-" + name, "shared-" + name + "-ticker", "shared-" + name + "-grow", "shared-" + name + "-maybe"} {
		if o := sc.s.get(configMaps, one); o != nil && !strings.Contains(text(o), uid) && (all || sc.random(2) == 0) {
			sc.s.drop(configMaps, one)
		}
	}
}

// checkChanges checks that everything that the changing handlers responded with last is written, and that a restart
// calls none of them.
func (sc *scenario) checkChanges() {
	for name, n := range sc.edited {
		o, value := sc.s.get(rates, name), strconv.Itoa(n)
		for path, have := range map[string]any{
			"grow": field(o, "metadata", "labels", "grow"), "ticker": field(o, "metadata", "labels", "ticker"),
			"whole": field(o, "metadata", "labels", "whole"), "steps": field(o, "metadata", "labels", "steps"),
			"both": field(o, "metadata", "labels", "both"), "maybe": field(o, "metadata", "annotations", "maybe"),
			"the status of both": text(field(o, "status", "both")), "shared": field(sc.s.get(configMaps, "shared-"+name), "data", "n"),
			"own": field(sc.s.get(configMaps, "own-"+name), "data", "n"), "shared maybe": field(sc.s.get(configMaps, "shared-"+name+"-maybe"), "data", "n"),
		} {
			if have != value {
				sc.t.Errorf("%s: %s has %v, want %s", name, path, have, value)
			}
		}
	}
	sc.model.mu.Lock()
	sc.model.atRest = true
	sc.model.mu.Unlock()
	sc.restart(false)
	elapse(10 * time.Minute)
}
