package rollout

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	setpoint "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/internal/cli/command"
	"github.com/setpoint-dev/setpoint/internal/cli/output"
	"github.com/setpoint-dev/setpoint/internal/dashboard/userclient"
	"github.com/setpoint-dev/setpoint/internal/rollout"
)

// rolloutInterval is how often --watch reads the controller, whose status changes at most once a second.
const rolloutInterval = time.Second

// reload reads the controller again.
func (r *rolloutRun) reload(ctx context.Context) error {
	r.controller = rolloutController{}
	if err := r.read(ctx, r.ref, &r.controller); err != nil {
		return err
	}
	switch {
	case r.controller.Metadata.UID != r.ref.UID:
		return fmt.Errorf("%s was deleted and created again", r.name)
	case r.controller.Spec.Rollout == nil:
		return r.noRollout()
	}
	return nil
}

func (r *rolloutRun) status(ctx context.Context) error {
	ctx, stop := command.UntilSignal(ctx)
	defer stop()
	if r.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, r.timeout, fmt.Errorf("the rollout of %s is not complete after %s", r.name, r.timeout))
		defer cancel()
	}
	err := r.watchStatus(ctx)
	switch {
	case err == nil || ctx.Err() == nil:
		return err
	case errors.Is(context.Cause(ctx), context.Canceled):
		r.Code = command.Aborted
		return errors.New("aborted; the rollout goes on")
	}
	return context.Cause(ctx)
}

// watchStatus prints the status; with --watch whenever it changes, until the rollout ends.
func (r *rolloutRun) watchStatus(ctx context.Context) error {
	shown, refused := "", 0
	for {
		differs := r.differsFromSpec(ctx)
		text, err := r.statusText(differs)
		if err != nil {
			return err
		}
		if text != shown {
			fmt.Fprint(r.Stdout, text)
			shown = text
		}
		if !r.watch || r.ended() && !differs {
			if s := r.controller.Status.Rollout; r.watch && s.Phase == setpoint.RolloutRolledBack {
				return command.WithHint(errors.New("the rollout was rolled back"),
					"correct the hooks, or start again with `setpoint rollout resume "+r.name+"`")
			}
			return nil
		}
		refused++
		if r.refusal() == "" {
			refused = 0
		}
		if refused == refusedReads {
			return command.WithHint(fmt.Errorf("%s: %s", r.name, output.Clean(r.refusal())),
				"correct it, or write the version in use into the spec: `setpoint rollout history "+r.name+" -o yaml` has it")
		}
		if err := r.next(ctx); err != nil {
			return err
		}
	}
}

// refusedReads is how many times in a row --watch reads that the version in the spec cannot be used, before it ends.
// A condition may still be about the code of a ConfigMap that was corrected since, which has no generation.
const refusedReads = 3

// next waits, and reads the controller again. It retries while the API server is unreachable.
func (r *rolloutRun) next(ctx context.Context) error {
	for said := false; ; said = true {
		if !command.Pause(ctx, rolloutInterval) {
			return ctx.Err()
		}
		err := r.reload(ctx)
		if ctx.Err() != nil || !userclient.IsUnreachable(err) {
			return err
		}
		if !said {
			fmt.Fprintf(r.Stderr, "warning: %v; trying again\n", err)
		}
	}
}

// refusal returns why the version in the spec cannot be used; empty if it can, or if Setpoint has not read it yet.
func (r *rolloutRun) refusal() string {
	accepted := r.condition(setpoint.ConditionAccepted)
	switch {
	case accepted == nil:
		return ""
	case accepted.Status == metav1.ConditionFalse:
		return "the spec is not accepted: " + accepted.Message
	case accepted.Reason == setpoint.ReasonSourceOutdated:
		return "the version in the spec cannot be used: " + accepted.Message
	}
	return ""
}

// condition returns a condition of the present generation; nil if there is none.
func (r *rolloutRun) condition(kind string) *metav1.Condition {
	c := meta.FindStatusCondition(r.controller.Status.Conditions, kind)
	if c == nil || c.ObservedGeneration < r.controller.Metadata.Generation {
		return nil
	}
	return c
}

// differsFromSpec reports whether the version of the status is another one than that in the spec. It returns false
// if the user may not read the version or its code.
func (r *rolloutRun) differsFromSpec(ctx context.Context) bool {
	s := r.controller.Status.Rollout
	if s == nil || s.To == "" {
		return false
	}
	v, err := r.version(ctx, s.Namespace, s.To)
	if err != nil {
		return false
	}
	same, err := r.inSpec(ctx, &v.Data)
	return err == nil && !same
}

// ended reports whether the rollout of the present spec has ended, and the latest request to start it again was
// carried out.
func (r *rolloutRun) ended() bool {
	s := r.controller.Status.Rollout
	if s == nil || rollout.UnderWay(s) || r.refusal() != "" || r.condition(setpoint.ConditionProgressing) == nil {
		return false
	}
	return s.Phase != setpoint.RolloutRolledBack || r.controller.Metadata.Annotations[setpoint.AnnotationRolloutRetryAt] == s.RetryAt
}

// note says why the status is not that of the spec; empty if it is.
func (r *rolloutRun) note(differs bool) string {
	refusal := r.refusal()
	switch {
	case r.controller.Spec.Suspend:
		return "suspended by spec.suspend: the rollout waits"
	case refusal != "":
		return refusal
	case differs:
		return "the version in the spec is not in use yet"
	case r.controller.Status.ObservedGeneration < r.controller.Metadata.Generation:
		return "Setpoint has not read the latest change of the spec yet"
	}
	return ""
}

// statusText returns the status in the format of the output.
func (r *rolloutRun) statusText(differs bool) (string, error) {
	s := r.controller.Status.Rollout
	var out strings.Builder
	if note := r.note(differs); note != "" && !r.Structured() {
		fmt.Fprintf(&out, "%s: %s\n", r.name, output.Clean(note))
	}
	if s == nil {
		fmt.Fprintf(&out, "%s: no rollout yet\n", r.name)
		return out.String(), nil
	}
	if r.Structured() {
		err := r.PrintValue(&out, s)
		return out.String(), err
	}
	_, reason, message := rollout.Condition(r.controller.Spec.Rollout, s)
	fmt.Fprintf(&out, "%s: %s: %s\n", r.name, strings.TrimPrefix(reason, "Rollout"), output.Clean(message))
	if s.Shadow != nil && s.Phase != setpoint.RolloutComplete {
		writeShadow(&out, s)
	}
	if s.Phase == setpoint.RolloutStepping {
		fmt.Fprintf(&out, "  %d of %d parents moved, %d reconciled by the new version\n", s.Moved, s.Total, s.Reconciled)
	}
	if until := r.observedUntil(); !until.IsZero() {
		fmt.Fprintf(&out, "  observed until %s\n", until.UTC().Format(time.RFC3339))
	}
	if version := r.controller.Status.LogicVersion; version != "" {
		fmt.Fprintf(&out, "  responses have logicVersion %s\n", output.Clean(version))
	}
	if s.From != "" {
		fmt.Fprintf(&out, "  from %s to %s\n", output.Clean(s.From), output.Clean(s.To))
	} else {
		fmt.Fprintf(&out, "  version %s\n", output.Clean(s.To))
	}
	return out.String(), nil
}

// observedUntil returns when the pause of the step or of the shadow is over; zero if it has not begun, or if it does
// not end by itself.
func (r *rolloutRun) observedUntil() time.Time {
	spec, s := r.controller.Spec.Rollout, r.controller.Status.Rollout
	if !rollout.UnderWay(s) || s.PausedSince == nil || s.Blocked != "" || spec == nil || spec.Paused || r.controller.Spec.Suspend {
		return time.Time{}
	}
	return s.PausedSince.Add(rollout.Pause(spec, s))
}

// writeShadow writes what the comparison of the versions has shown.
func writeShadow(out *strings.Builder, s *setpoint.RolloutStatus) {
	shadow := s.Shadow
	fmt.Fprintf(out, "  shadow: %d of %d parents compared, %d with a different response, %d failed\n",
		shadow.Compared, s.Total, shadow.Different, shadow.Failed)
	if shadow.Retrying > 0 {
		fmt.Fprintf(out, "  the new version fails now for %d parents, which are compared again", shadow.Retrying)
		if shadow.Failed == 0 { // Otherwise, the message has the failure.
			fmt.Fprintf(out, ": %s", output.Clean(shadow.Failure))
		}
		fmt.Fprintln(out)
	}
	if shadow.WouldDelete != "" {
		fmt.Fprintf(out, "  the new version would delete %s\n", output.Clean(shadow.WouldDelete))
	}
	for _, each := range shadow.Examples {
		fmt.Fprintf(out, "    %s: %s\n", output.Clean(each.Object), output.Clean(each.Text))
	}
}
