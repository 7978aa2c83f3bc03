package router

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"

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
)

// compareLater compares the versions in the background, after the version before was called.
func (r *Router) compareLater(ctx context.Context, run *Run, call *Call) {
	s, of := &r.Assignment.shadow, r.parent(run.Stored)
	if !s.tryAcquire(of, r.Now()) {
		return
	}
	observed, _ := run.Children()
	one := &comparison{
		Router: r, parent: run.Stored, planner: *call.Planner, observed: observed, request: *call.Request, beforeErr: call.Err,
	}
	if call.Err == nil {
		said := *call.Response // The run changes the response.
		one.before = &said
	}
	r.comparisons.Go(func() { s.release(of, one.compareBoth(ctx)) })
}

// noteNotCompared notes that a run failed before it called a hook, so that the rollout does not wait for it.
func (r *Router) noteNotCompared(run *Run, end *End) {
	var why string
	switch {
	case run.Logic.Sync == nil:
		why = "the version before has no sync hook"
	case end.Outcome == record.Failed && end.Calls == 0:
		why = failure.OneLine(end.Err)
	default:
		return
	}
	s, of := &r.Assignment.shadow, r.parent(run.Stored)
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.get(of); s.on && !p.settled {
		p.add(notComparable(why))
		s.parents[of.ObjectID] = p
	}
}

// comparison compares both versions of the hooks for one parent. It writes nothing.
type comparison struct {
	*Router

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

// compareBoth calls the new version. It returns nil if the context ends first.
func (c *comparison) compareBoth(ctx context.Context) *shadowResult {
	if c.Logic.Sync == nil {
		return notComparable("the new version has no sync hook")
	}
	if c.Related != nil {
		// It has the rules of one comparison of a parent at a time, also if the parent is deleted meanwhile.
		defer c.Related.Drop(controller.KeyOf(c.parent))
	}
	after, err := c.callNew(ctx)
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
		result.deletions = c.newDeletions(after)
	}
	return result
}

// callNew calls the new version with the request of the version before, and its own related objects.
func (c *comparison) callNew(ctx context.Context) (response *hook.Response, err error) {
	attrs := []any{"hook", "sync", "object", c.parent.Ref().String()}
	values := c.seen(nil, c.recordCall(c.before, c.beforeErr))
	err = c.base.CallUserCode("the function", failure.Hook, attrs, values, func() (err error) {
		if err = c.relate(ctx); err == nil {
			response, err = c.Logic.Sync.Call(ctx, &c.request)
		}
		return err
	})
	if err != nil {
		return nil, c.SyncFailure(err)
	}
	return response, nil
}

// relate replaces the related objects by those that the new version selects.
func (c *comparison) relate(ctx context.Context) error {
	if c.Related == nil {
		return nil
	}
	key := controller.KeyOf(c.parent)
	var rules []hook.RelatedRule
	if c.Logic.Customize != nil {
		selected, err := c.Logic.Customize.Customize(ctx, c.CustomizeRequest(c.parent))
		if err != nil {
			return fmt.Errorf("customize: %w", err)
		}
		rules = selected.Related
	}
	if err := c.listRelated(ctx, key, rules); err != nil {
		return fmt.Errorf("related objects: %w", err)
	}
	c.relatedBefore, c.request.Related = c.request.Related, c.Related.Snapshot(key).Groups
	return nil
}

// listRelated waits until all that rules select is listed.
func (c *comparison) listRelated(ctx context.Context, key queue.Key, rules []hook.RelatedRule) error {
	reads, err := c.Related.ReadsOf(ctx, key, rules)
	if err == nil {
		err = c.CheckReads(ctx, c.parent, reads)
	}
	if err == nil {
		err = c.Related.Set(ctx, key, rules)
	}
	for pending := c.Related.Pending(key); err == nil && len(pending) > 0; pending = c.Related.Pending(key) {
		for _, watch := range pending {
			err = cmp.Or(err, watch.Err)
		}
		if err == nil && !controller.Sleep(ctx, related.PollInterval) {
			err = context.Cause(ctx)
		}
	}
	if err != nil {
		return err
	}
	return c.CheckReads(ctx, c.parent, reads) // A right may have been revoked meanwhile.
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
		masked := c.values.JSON(calls[i].Received.JSON(calls[i].Sent.ControllerType), c.base.Resource().GroupKind().IsSecret())
		if sides[i], err = difference.Decode(masked, c.planner.ChildrenField(), c.parent.Namespace()); err != nil {
			return difference.Comparison{}, err
		}
	}
	comparing := difference.Comparison{
		Before: sides[0], After: sides[1], ChildrenField: c.planner.ChildrenField(), Namespace: c.parent.Namespace(),
	}
	comparing.Plan = func() ([]*object.Object, plan.Plan, error) {
		todo, err := difference.Plan(&c.planner, c.observed, after.Children)
		if err != nil {
			err = c.SyncFailure(plan.Malformed(err))
		}
		return c.observed, todo, err
	}
	return comparing, nil
}

func (c *comparison) recordCall(response *hook.Response, err error) record.Call {
	// Values of Secrets that either version selects are masked.
	request := c.request
	request.Related = slices.Concat(c.relatedBefore, c.request.Related)
	return record.Call{Name: "sync", Sent: record.Request{ControllerType: c.ControllerType, Sync: &request},
		Received: record.Response{Sync: response}, Err: err}
}

// seen returns the values of the Secrets in calls.
func (c *comparison) seen(key *redact.Key, calls ...record.Call) *redact.Values {
	run := record.Run{Object: c.base.Resource().Ref(c.parent.Namespace(), c.parent.Name())}
	for i := range calls {
		run.Steps = append(run.Steps, record.Step{Call: &calls[i]})
	}
	return run.Values(key)
}

// newDeletions counts the existing children that the new version would delete, and the one before does not.
func (c *comparison) newDeletions(after *hook.Response) map[string]int {
	then, err := difference.Plan(&c.planner, c.observed, c.before.Children)
	if err != nil {
		return nil // The version before gets its error.
	}
	now, err := difference.Plan(&c.planner, c.observed, after.Children)
	if err != nil {
		return nil
	}
	already := then.Removals()
	counts := map[string]int{}
	for _, a := range now.Removals() {
		if !slices.ContainsFunc(already, func(other plan.Action) bool { return other.Ref == a.Ref }) {
			counts[a.Resource.Kind]++
		}
	}
	return counts
}

// shown returns a text with a mask in place of each token that stands for a value.
func (c *comparison) shown(text string) string {
	return string(redact.HideTokens(json.RawMessage(c.values.Text(text)), redact.Mask))
}
