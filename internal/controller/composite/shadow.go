package composite

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	api "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/difference"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
	"github.com/setpoint-dev/setpoint/internal/queue"
	"github.com/setpoint-dev/setpoint/internal/record"
	"github.com/setpoint-dev/setpoint/internal/redact"
	"github.com/setpoint-dev/setpoint/internal/related"
	"github.com/setpoint-dev/setpoint/internal/rollout"
)

const (
	// maxShadowCalls is how many comparisons run at once, so that a hook that hangs holds few requests.
	maxShadowCalls = 16
	// shadowRetryDelay is when a parent is compared again that could not be, or whose new version failed.
	shadowRetryDelay = 5 * time.Second
	// maxShadowEffects is how many differences of one parent are kept.
	maxShadowEffects = 3
)

// shadow compares the versions while no parent has moved. It never delays or fails a run: a comparison that may not
// be made now is left out.
type shadow struct {
	mu sync.Mutex
	on bool
	// first and again are how many parents may be compared until the next second: those that were not yet, and
	// others, which are reconciled anyway.
	first, again int
	parents      map[controller.ObjectID]shadowedParent
	// comparing are the parents that are compared now, one comparison each, and whether its result counts.
	comparing map[controller.ObjectID]bool
}

// shadowed identifies a parent; another one may have its name later.
type shadowed struct {
	controller.ObjectID

	uid string
}

func (c *Controller) shadowed(parent *object.Object) shadowed {
	return shadowed{c.ID(controller.KeyOf(parent)), parent.UID()}
}

// shadowedParent is what comparisons have shown of a parent.
type shadowedParent struct {
	uid string
	// requestedAt is when it was queued, or compared.
	requestedAt time.Time
	// settled means that the versions were compared, or that retries do not help.
	settled bool
	// attempts counts the failures of the new version in a row.
	attempts int
	shadowResult
}

// shadowResult is the result of a comparison.
type shadowResult struct {
	// failure is why the new version fails; empty if it does not, or the one before does too.
	failure string
	// terminal means that a retry does not help.
	terminal bool
	effects  []difference.Effect
	// more counts the effects that were left out.
	more int
	// deletions counts the existing children that only the new version would delete, by kind.
	deletions map[string]int
}

// SetShadow starts or ends the comparison of the versions, for at most so many parents per second. It is called
// each second.
func (v *Versions) SetShadow(on bool, perSecond int) {
	s := &v.shadow
	s.mu.Lock()
	defer s.mu.Unlock()
	if on && !s.on { // What an earlier shadow has shown does not count.
		s.parents = map[controller.ObjectID]shadowedParent{}
		for of := range s.comparing {
			s.comparing[of] = false
		}
	}
	if s.on = on; on {
		s.first, s.again = perSecond, perSecond
	}
}

// get returns what is known of a parent.
func (s *shadow) get(of shadowed) shadowedParent {
	if p := s.parents[of.ObjectID]; p.uid == of.uid {
		return p
	}
	return shadowedParent{uid: strings.Clone(of.uid)}
}

// tryAcquire reports whether a parent may be compared now. release has to follow.
func (s *shadow) tryAcquire(of shadowed, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, comparing := s.comparing[of.ObjectID]
	if !s.on || comparing || len(s.comparing) >= maxShadowCalls {
		return false
	}
	left := &s.first
	p := s.get(of)
	if p.settled {
		left = &s.again
	}
	if *left == 0 {
		return false
	}
	*left--
	if s.comparing == nil {
		s.comparing = map[controller.ObjectID]bool{}
	}
	s.comparing[of.ObjectID] = true
	p.requestedAt = now
	s.parents[of.ObjectID] = p
	return true
}

// release ends a comparison. A nil result means that the controller is stopping.
func (s *shadow) release(of shadowed, result *shadowResult) {
	s.mu.Lock()
	defer s.mu.Unlock()
	counts := s.comparing[of.ObjectID]
	delete(s.comparing, of.ObjectID)
	p := s.parents[of.ObjectID]
	if !counts || result == nil || p.uid != of.uid {
		return // It was deleted meanwhile.
	}
	p.add(result)
	s.parents[of.ObjectID] = p
}

// add adds one more result. What a flake would replace stays.
func (p *shadowedParent) add(result *shadowResult) {
	if result.failure == "" {
		p.shadowResult, p.attempts, p.settled = *result, 0, true
		return
	}
	p.attempts++
	p.failure, p.terminal = result.failure, result.terminal
	if p.isFailing() {
		p.shadowResult, p.settled = *result, true
	}
}

// isFailing reports whether the new version fails, and not only for a moment.
func (p *shadowedParent) isFailing() bool {
	return p.failure != "" && (p.attempts > maxFlakes || p.terminal)
}

func (s *shadow) drop(of controller.ObjectID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.parents, of)
}

func (s *shadow) isOn() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.on
}

// due returns the parents among those given to compare now, and notes that they are queued.
func (s *shadow) due(all []shadowed, now time.Time) []shadowed {
	s.mu.Lock()
	defer s.mu.Unlock()
	var chosen []shadowed
	for _, of := range all {
		if len(chosen) >= min(s.first, maxShadowCalls-len(s.comparing)) {
			break
		}
		p := s.get(of)
		if _, comparing := s.comparing[of.ObjectID]; comparing || p.settled && !p.isFailing() ||
			now.Sub(p.requestedAt) < shadowRetryDelay {
			continue
		}
		p.requestedAt = now
		s.parents[of.ObjectID] = p
		chosen = append(chosen, of)
	}
	return chosen
}

// QueueShadow queues parents for which the versions were not compared yet.
func (c *Controller) QueueShadow() {
	s := &c.tools.Versions.shadow
	if !s.isOn() {
		return
	}
	var all []shadowed
	for parent := range c.Managed() {
		if c.PhaseOf(parent) == controller.PhaseManaged {
			all = append(all, c.shadowed(parent))
		}
	}
	cause := queue.Cause{Kind: queue.LogicCompared, Detail: c.program.Version}
	for _, of := range s.due(all, c.tools.Now()) {
		c.Queue.Add(of.Key, cause)
	}
}

// noteNotCompared notes that a run failed before it called a hook, so that the rollout does not wait for it.
func (r *run) noteNotCompared(outcome record.Outcome, err error) {
	if r.program.Former == nil || r.logic.Version == r.program.Version || r.Phase != controller.PhaseManaged {
		return
	}
	var why string
	switch {
	case r.logic.Sync == nil:
		why = "the version before has no sync hook"
	case outcome == record.Failed && r.calls == 0:
		why = failure.OneLine(err)
	default:
		return
	}
	s, of := &r.tools.Versions.shadow, r.shadowed(r.Stored)
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.get(of); s.on && !p.settled {
		p.add(&shadowResult{effects: []difference.Effect{{Consequence: difference.NotComparable, Text: why}}})
		s.parents[of.ObjectID] = p
	}
}

// observe adds what is known of a parent to what a rollout knows.
func (s *shadow) observe(of shadowed, parent *object.Object, o *rollout.Observed) {
	s.mu.Lock()
	p := s.get(of)
	s.mu.Unlock()
	name := parent.Ref().String()
	if p.failure != "" && !p.isFailing() {
		o.Add(rollout.Observed{Shadow: rollout.Shadow{Retrying: 1, RetryingFailure: name + ": " + p.failure}})
	}
	if !p.settled {
		return
	}
	known := rollout.Observed{Shadow: rollout.Shadow{Compared: 1, Deletions: p.deletions}}
	switch {
	case p.isFailing():
		known.Shadow.Failed, known.Shadow.Failure = 1, name+": "+p.failure
	case len(p.effects) > 0 && p.effects[0].Consequence.Severity() < difference.Failed.Severity():
		known.Shadow.Different = 1
	}
	repeats := map[difference.Consequence]int{}
	for _, e := range p.effects {
		known.Shadow.Examples = append(known.Shadow.Examples, rollout.Example{
			RolloutDifference: api.RolloutDifference{Object: name, Consequence: string(e.Consequence), Text: e.Text},
			Severity:          e.Consequence.Severity(), Repeats: repeats[e.Consequence],
		})
		repeats[e.Consequence]++
	}
	o.Add(known)
}

// describe returns what the comparison has shown of a parent, as lines; nil if nothing is different.
func (s *shadow) describe(of shadowed) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.get(of)
	if !s.on {
		return nil
	}
	var lines []string
	if p.failure != "" {
		lines = append(lines, "fails: "+p.failure)
	}
	for _, e := range p.effects {
		if e.Consequence != difference.Failed {
			lines = append(lines, e.Text)
		}
	}
	if p.more > 0 {
		lines = append(lines, fmt.Sprintf("and %d more", p.more))
	}
	return lines
}

// compareLater compares the versions in the background, after the version before was called with a request.
func (r *run) compareLater(ctx context.Context, request *hook.Request, response *hook.Response, err error) {
	if r.program.Former == nil || r.logic.Version == r.program.Version || r.Phase != controller.PhaseManaged || ctx.Err() != nil {
		return
	}
	if _, delayed := hook.RetryDelay(err); delayed {
		return // It gets no response yet.
	}
	s, of := &r.tools.Versions.shadow, r.shadowed(r.Stored)
	if !s.tryAcquire(of, r.tools.Now()) {
		return
	}
	one := &comparison{
		Controller: r.Controller, parent: r.Stored, planner: r.planner, observed: r.observed(), request: *request, beforeErr: err,
	}
	if err == nil {
		said := *response // The run changes the response.
		one.before = &said
	}
	r.shadowCalls.Go(func() { s.release(of, one.run(ctx)) })
}

// comparison compares both versions of the hooks for one parent. It writes nothing.
type comparison struct {
	*Controller

	parent   *object.Object
	planner  plan.Planner
	observed []*object.Object
	// request is that of the version before, which has returned either before or beforeErr.
	request hook.Request
	// relatedBefore are the related objects of that request. request gets those that the new version selects.
	relatedBefore []hook.Group
	before        *hook.Response
	beforeErr     error
	// values are those of the Secrets that either version got or returned.
	values *redact.Values
}

// run calls the new version. It returns nil if the context ends first.
func (c *comparison) run(ctx context.Context) *shadowResult {
	if c.program.Sync == nil {
		return &shadowResult{effects: []difference.Effect{{Consequence: difference.NotComparable,
			Text: "the new version has no sync hook"}}}
	}
	if c.shadowRelated != nil {
		// It has the rules of one comparison of a parent at a time, also if the parent is deleted meanwhile.
		defer c.shadowRelated.Drop(controller.KeyOf(c.parent))
	}
	after, err := c.call(ctx)
	if ctx.Err() != nil {
		return nil
	}
	comparing, unreadable := c.compareWith(after, err)
	if unreadable != nil {
		err = unreadable
		comparing.After = difference.Response{difference.FieldError: failure.OneLine(err)}
	}
	all := comparing.Effects()
	result := &shadowResult{}
	if i := slices.IndexFunc(all, func(e difference.Effect) bool { return e.Consequence == difference.Failed }); i >= 0 {
		result.failure, result.terminal = c.shown(all[i].Text), hook.IsTerminal(err)
		all = all[i : i+1]
	}
	for _, e := range all[:min(len(all), maxShadowEffects)] {
		result.effects = append(result.effects, difference.Effect{Consequence: e.Consequence, Text: c.shown(e.Text)})
	}
	result.more = max(0, len(all)-maxShadowEffects)
	if after != nil && c.before != nil {
		result.deletions = c.deletions(after)
	}
	return result
}

// call calls the new version with the request of the version before, and its own related objects.
func (c *comparison) call(ctx context.Context) (response *hook.Response, err error) {
	attrs := []any{"hook", "sync", "object", c.parent.Ref().String()}
	values := c.seen(nil, c.recordCall(c.before, c.beforeErr))
	err = c.CallUserCode("the function", failure.Hook, attrs, values, func() (err error) {
		if err = c.relate(ctx); err == nil {
			response, err = c.program.Sync.Call(ctx, &c.request)
		}
		return err
	})
	if err != nil {
		return nil, hookFailure("sync", err)
	}
	return response, nil
}

// relate replaces the related objects by those that the new version selects.
func (c *comparison) relate(ctx context.Context) error {
	if c.shadowRelated == nil {
		return nil
	}
	key := controller.KeyOf(c.parent)
	var rules []hook.RelatedRule
	if c.program.Customize != nil {
		selected, err := c.program.Customize.Customize(ctx, &hook.CustomizeRequest{Controller: c.program.Object,
			Parent: c.program.objectJSON(c.parent)})
		if err != nil {
			return fmt.Errorf("customize: %w", err)
		}
		rules = selected.Related
	}
	reads, err := c.shadowRelated.ReadsOf(ctx, key, rules)
	if err == nil {
		err = c.checkReads(ctx, reads)
	}
	if err != nil {
		return fmt.Errorf("related objects: %w", err)
	}
	if err := c.shadowRelated.Set(ctx, key, rules); err != nil {
		return fmt.Errorf("related objects: %w", err)
	}
	for pending := c.shadowRelated.Pending(key); len(pending) > 0; pending = c.shadowRelated.Pending(key) {
		for _, watch := range pending {
			if watch.Err != nil {
				return fmt.Errorf("related objects: %w", watch.Err)
			}
		}
		if !controller.Sleep(ctx, relatedPollInterval) {
			return context.Cause(ctx)
		}
	}
	// A right may have been revoked meanwhile.
	if err := c.checkReads(ctx, reads); err != nil {
		return fmt.Errorf("related objects: %w", err)
	}
	c.relatedBefore, c.request.Related = c.request.Related, c.shadowRelated.Snapshot(key).Groups
	return nil
}

// checkReads checks what the ServiceAccount of the controller may read: the caches have what Setpoint itself may.
func (c *comparison) checkReads(ctx context.Context, reads []related.Read) error {
	return c.checkRelatedReads(ctx, c.program.Account.UserFor(c.parent.Namespace()), reads)
}

// compareWith returns the comparison with the response or the error of the new version. Values of Secrets are tokens.
func (c *comparison) compareWith(after *hook.Response, afterErr error) (difference.Comparison, error) {
	calls := [2]record.Call{c.recordCall(c.before, c.beforeErr), c.recordCall(after, afterErr)}
	c.values = c.seen(redact.NewKey(), calls[:]...) // A value may be in a Secret of the other response only.
	var sides [2]difference.Response
	for i := range calls {
		sides[i] = difference.Response{}
		if err := calls[i].Err; err != nil {
			sides[i][difference.FieldError] = c.values.Text(failure.OneLine(err))
			continue
		}
		var err error
		masked := c.values.JSON(calls[i].Response.JSON(calls[i].Request.ControllerType), c.program.Parent.GroupKind().IsSecret())
		if sides[i], err = difference.Decode(masked, c.program.childrenField(), c.parent.Namespace()); err != nil {
			return difference.Comparison{}, err
		}
	}
	comparing := difference.Comparison{
		Before: sides[0], After: sides[1], BeforeName: "the version before", ChildrenField: c.program.childrenField(),
		Namespace: c.parent.Namespace(),
	}
	comparing.Plan = func() ([]*object.Object, plan.Plan, error) {
		todo, err := difference.Plan(&c.planner, c.observed, after.Children)
		if err != nil {
			err = hookFailure("sync", malformedError(err))
		}
		return c.observed, todo, err
	}
	return comparing, nil
}

func (c *comparison) recordCall(response *hook.Response, err error) record.Call {
	// Values of Secrets that either version selects are masked.
	request := c.request
	request.Related = slices.Concat(c.relatedBefore, c.request.Related)
	return record.Call{Name: "sync", Request: record.Request{ControllerType: c.program.form(), Sync: &request},
		Response: record.Response{Sync: response}, Err: err}
}

// seen returns the values of the Secrets in calls.
func (c *comparison) seen(key *redact.Key, calls ...record.Call) *redact.Values {
	run := record.Run{Resource: c.program.Parent, Key: controller.KeyOf(c.parent)}
	for i := range calls {
		run.Steps = append(run.Steps, record.Step{Call: &calls[i]})
	}
	return run.Values(key)
}

// deletions counts the existing children that the new version would delete, and the one before does not.
func (c *comparison) deletions(after *hook.Response) map[string]int {
	then, err := difference.Plan(&c.planner, c.observed, c.before.Children)
	if err != nil {
		return nil // The version before gets its error.
	}
	now, err := difference.Plan(&c.planner, c.observed, after.Children)
	if err != nil {
		return nil
	}
	already := then.Removals()
	var counts map[string]int
	for _, a := range now.Removals() {
		if slices.ContainsFunc(already, func(other plan.Action) bool { return other.Ref == a.Ref }) {
			continue
		}
		if counts == nil {
			counts = map[string]int{}
		}
		counts[a.Resource.Kind]++
	}
	return counts
}

// shown returns a text with a mask in place of each token that stands for a value.
func (c *comparison) shown(text string) string {
	return string(redact.HideTokens(json.RawMessage(c.values.Text(text)), redact.Mask))
}

// form is that of requests and responses.
func (p *Program) form() hook.ControllerType {
	if p.isDecorator() {
		return hook.Decorator
	}
	return hook.Composite
}

// childrenField is the field of children in responses.
func (p *Program) childrenField() string {
	if p.isDecorator() {
		return "attachments"
	}
	return "children"
}
