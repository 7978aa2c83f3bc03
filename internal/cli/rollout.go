package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/types"

	setpoint "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/dashboard/userclient"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/rollout"
)

// rolloutFlags are the flags of the commands of `setpoint rollout`.
type rolloutFlags struct {
	outputFlags
	cluster  clusterFlags
	watch    bool
	timeout  time.Duration
	revision int64
}

func (p *program) rolloutCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "rollout COMMAND CONTROLLER",
		Short: "Show and control the rollout of changed hooks",
		Long: `Show and control the rollout of changed hooks of a controller with spec.rollout.

CONTROLLER is a CompositeController or DecoratorController of setpoint.dev, as KIND/NAME, or its
NAME if that is unambiguous.`,
		Args: noCommand,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	status := p.rolloutSubcommand("status", "Show where a rollout is", `Show where the rollout of a controller is. With --watch, wait until it is complete; the exit
code is 1 if it is rolled back.`, asText, (*rolloutRun).status)
	pause := p.rolloutSubcommand("pause", "Stop a rollout where it is", "Stop a rollout where it is: sets spec.rollout.paused.", "", (*rolloutRun).pause)
	resume := p.rolloutSubcommand("resume", "Continue a rollout, or start it again", `Continue a paused rollout, or start it again after a rollback: unsets spec.rollout.paused, or
sets the annotation setpoint.dev/rollout-retry-at.`, "", (*rolloutRun).resume)
	undo := p.rolloutSubcommand("undo", "Return to an earlier version", `Write the hooks of the version before, or of another revision, into the spec, and their code into
its ConfigMaps. In the middle of a rollout, the version before ends it, and moved parents return. Any
other one is rolled out in steps. Change the files of the controller too: a tool that applies them
would write the new version again.`, "", (*rolloutRun).undo)
	history := p.rolloutSubcommand("history", "List the versions", `List the versions of the hooks of a controller that were rolled out. -o yaml shows them whole.`, asTable, (*rolloutRun).history)
	c.AddCommand(status, pause, resume, undo, history)
	return c
}

// rolloutSubcommand returns a command about the rollout of one controller. The format is the default of those
// that it prints; empty for none.
func (p *program) rolloutSubcommand(name, short, long, format string, run func(*rolloutRun, context.Context) error) *cobra.Command {
	f := &rolloutFlags{outputFlags: newOutputFlags(asText)}
	if format != "" {
		f.outputFlags = newOutputFlags(format, asJSON, asYAML)
	}
	none := ""
	c := &cobra.Command{
		Use: name + " CONTROLLER", Short: short, Long: long, Example: "  setpoint rollout " + name + " teams",
		Args: func(_ *cobra.Command, args []string) error {
			switch len(args) {
			case 0:
				return usageError{errors.New("no controller given, such as compositecontroller.setpoint.dev/NAME")}
			case 1:
				return nil
			}
			return usageError{fmt.Errorf("unexpected argument %q", args[1])}
		},
		ValidArgsFunction: complete(&f.cluster, &none, completer.rolloutArgs),
		RunE: func(c *cobra.Command, args []string) error {
			r, err := p.rollout(c.Context(), f, args[0])
			if err != nil {
				return err
			}
			return run(r, c.Context())
		},
	}
	f.cluster.register(c)
	if format != "" {
		f.register(c)
	}
	switch name {
	case "status":
		c.Flags().BoolVarP(&f.watch, "watch", "w", false, "wait until the rollout is complete or rolled back")
		c.Flags().DurationVar(&f.timeout, "timeout", 0, "end --watch with an error after this time (default: never)")
	case "undo":
		c.Flags().Int64Var(&f.revision, "to-revision", 0, "`number` of the revision (default: the version before)")
	}
	return c
}

// rolloutArgs completes controllers that can have rollouts.
func (by completer) rolloutArgs(ctx context.Context, args []string, word string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveDefault
	}
	words := slices.DeleteFunc(by.controllers(ctx, word, ""), func(name string) bool {
		return !strings.HasPrefix(name, "compositecontroller") && !strings.HasPrefix(name, "decoratorcontroller") && !strings.HasPrefix(name, "spcc/") && !strings.HasPrefix(name, "spdc/") ||
			strings.Contains(name, ".metacontroller.")
	})
	return withPrefix(word, words), cobra.ShellCompDirectiveDefault
}

// rolloutRun is one run of a command about the rollout of a controller.
type rolloutRun struct {
	*program
	*rolloutFlags
	perms *permissions
	// ref is the controller, name how commands call it.
	ref  object.Ref
	name string
	// controller is what the commands read of it.
	controller rolloutController
}

// rolloutController is a CompositeController or DecoratorController.
type rolloutController struct {
	Metadata struct {
		UID         string            `json:"uid"`
		Generation  int64             `json:"generation"`
		Annotations map[string]string `json:"annotations"`
	} `json:"metadata"`
	Spec struct {
		Hooks           json.RawMessage   `json:"hooks"`
		EndpointConfigs json.RawMessage   `json:"endpointConfigs"`
		Rollout         *setpoint.Rollout `json:"rollout"`
	} `json:"spec"`
	Status setpoint.ControllerStatus `json:"status"`
}

// rollout finds a controller that has rollouts.
func (p *program) rollout(ctx context.Context, f *rolloutFlags, arg string) (*rolloutRun, error) {
	cluster, err := f.cluster.find()
	if err != nil {
		return nil, err
	}
	r := &rolloutRun{program: p, rolloutFlags: f}
	if r.perms, err = newPermissions(cluster); err != nil {
		return nil, err
	}
	stored, err := r.perms.storedController(ctx, arg)
	if err != nil {
		return nil, err
	}
	kind, _ := compile.KindOf(stored)
	r.name = kind.Name + "/" + stored.Name()
	r.ref = object.Ref{Kind: object.KindOf(kind.Resource), Name: stored.Name(), UID: stored.UID()}
	if err := json.Unmarshal(stored.JSON(), &r.controller); err != nil {
		return nil, fmt.Errorf("read %s: %w", r.name, err)
	}
	if r.controller.Spec.Rollout == nil && f.revision == 0 {
		return nil, errorWithHint{fmt.Errorf("%s has no spec.rollout: changed hooks reconcile all parents at once", r.name), "see docs/change-logic.md"}
	}
	return r, nil
}

// storedController reads the controller that an argument names.
func (r *permissions) storedController(ctx context.Context, arg string) (*object.Object, error) {
	kind, name, is, err := r.controllerArg(ctx, arg)
	switch {
	case err != nil:
		return nil, err
	case is:
		return r.getController(ctx, kind, name)
	case strings.Contains(arg, "/"):
		return nil, usageError{fmt.Errorf("%q is no controller such as compositecontroller.setpoint.dev/NAME", arg)}
	}
	return controllerNamed(arg, func(kind compile.Kind) (*object.Object, error) {
		stored, err := r.getController(ctx, kind, arg)
		if errors.Is(err, failure.ErrNotFound) {
			return nil, nil // There is none of this kind.
		}
		return stored, err
	})
}

func (r *permissions) getController(ctx context.Context, kind compile.Kind, name string) (*object.Object, error) {
	text, err := r.api.Get(ctx, object.KindOf(kind.Resource), "", name)
	if err != nil {
		return nil, err
	}
	return object.Parse(text)
}

// reload reads the controller again.
func (r *rolloutRun) reload(ctx context.Context) error {
	text, err := r.perms.api.Get(ctx, r.ref.Kind, "", r.ref.Name)
	if err != nil {
		return err
	}
	r.controller = rolloutController{}
	return json.Unmarshal(text, &r.controller)
}

// rolloutInterval is how often --watch reads the controller, whose status changes at most once a second.
const rolloutInterval = time.Second

func (r *rolloutRun) status(ctx context.Context) error {
	ctx, stop := untilSignal(ctx)
	defer stop()
	if r.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, r.timeout, fmt.Errorf("the rollout of %s is not complete after %s", r.name, r.timeout))
		defer cancel()
	}
	shown := ""
	for {
		text, err := r.statusText()
		if err != nil {
			return err
		}
		if text != shown {
			fmt.Fprint(r.stdout, text)
			shown = text
		}
		if s := r.controller.Status.Rollout; !r.watch || s != nil && !rollout.UnderWay(s) && r.observed() {
			return r.statusErr()
		}
		if !pause(ctx, rolloutInterval) {
			return context.Cause(ctx)
		}
		if err := r.reload(ctx); err != nil {
			return cmp.Or(context.Cause(ctx), err)
		}
	}
}

// observed reports whether the status is that of the present spec, and of the latest request to start again.
func (r *rolloutRun) observed() bool {
	c := &r.controller
	requested := c.Metadata.Annotations[setpoint.AnnotationRolloutRetryAt]
	return c.Status.ObservedGeneration >= c.Metadata.Generation &&
		(c.Status.Rollout.Phase != setpoint.RolloutRolledBack || requested == c.Status.Rollout.RetryAt)
}

// statusErr is the error of --watch after a rollback.
func (r *rolloutRun) statusErr() error {
	if s := r.controller.Status.Rollout; r.watch && s.Phase == setpoint.RolloutRolledBack {
		return errorWithHint{errors.New("the rollout was rolled back"), "correct the hooks, or start again with `setpoint rollout resume " + r.name + "`"}
	}
	return nil
}

// statusText returns the status in the format of the output.
func (r *rolloutRun) statusText() (string, error) {
	s := r.controller.Status.Rollout
	if s == nil {
		return r.name + ": no rollout yet\n", nil
	}
	var out strings.Builder
	if r.structured() {
		err := r.printValue(&out, s)
		return out.String(), err
	}
	_, reason, message := rollout.Condition(r.controller.Spec.Rollout, s)
	fmt.Fprintf(&out, "%s: %s: %s\n", r.name, strings.TrimPrefix(reason, "Rollout"), clean(message))
	if s.Shadow != nil && s.Phase != setpoint.RolloutComplete {
		writeShadow(&out, s)
	}
	if s.Phase == setpoint.RolloutStepping {
		fmt.Fprintf(&out, "  %d of %d parents moved, %d reconciled by the new version\n", s.Moved, s.Total, s.Reconciled)
	}
	if version := r.controller.Status.LogicVersion; version != "" {
		fmt.Fprintf(&out, "  responses have logicVersion %s\n", clean(version))
	}
	if s.From != "" {
		fmt.Fprintf(&out, "  from %s to %s\n", clean(s.From), clean(s.To))
	} else {
		fmt.Fprintf(&out, "  version %s\n", clean(s.To))
	}
	return out.String(), nil
}

// writeShadow writes what the comparison of the versions has shown.
func writeShadow(out *strings.Builder, s *setpoint.RolloutStatus) {
	shadow := s.Shadow
	fmt.Fprintf(out, "  shadow: %d of %d parents compared, %d with a different response, %d failed\n", shadow.Compared, s.Total, shadow.Different, shadow.Failed)
	if shadow.Retrying > 0 {
		fmt.Fprintf(out, "  the new version fails now for %d parents, which are compared again", shadow.Retrying)
		if shadow.Failed == 0 { // Otherwise, the message has the failure.
			fmt.Fprintf(out, ": %s", clean(shadow.Failure))
		}
		fmt.Fprintln(out)
	}
	if shadow.WouldDelete != "" {
		fmt.Fprintf(out, "  the new version would delete %s\n", clean(shadow.WouldDelete))
	}
	for _, each := range shadow.Examples {
		fmt.Fprintf(out, "    %s: %s\n", clean(each.Object), clean(each.Text))
	}
}

func (r *rolloutRun) pause(ctx context.Context) error {
	if err := r.setPaused(ctx, true); err != nil {
		return err
	}
	fmt.Fprintf(r.stdout, "%s: rollout paused\n", r.name)
	return nil
}

func (r *rolloutRun) resume(ctx context.Context) error {
	s := r.controller.Status.Rollout
	rolledBack := s != nil && s.Phase == setpoint.RolloutRolledBack
	if r.controller.Spec.Rollout.Paused {
		if err := r.setPaused(ctx, false); err != nil {
			return err
		}
	}
	if rolledBack {
		if err := r.perms.annotate(ctx, r.ref, setpoint.AnnotationRolloutRetryAt, time.Now().UTC().Format(time.RFC3339Nano)); err != nil {
			return err
		}
		fmt.Fprintf(r.stdout, "%s: rollout starts again\n", r.name)
		return nil
	}
	fmt.Fprintf(r.stdout, "%s: rollout resumed\n", r.name)
	return nil
}

func (r *rolloutRun) setPaused(ctx context.Context, paused bool) error {
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": r.ref.UID},
		"spec":     map[string]any{"rollout": map[string]any{"paused": paused}},
	})
	if err != nil {
		return err
	}
	_, err = r.perms.api.Patch(ctx, r.ref, types.MergePatchType, patch, userclient.WriteOptions{})
	return err
}
