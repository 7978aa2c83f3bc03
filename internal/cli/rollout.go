package cli

import (
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
)

// rolloutFlags are the flags of the commands of `setpoint rollout`.
type rolloutFlags struct {
	outputFlags
	cluster  clusterFlags
	watch    bool
	timeout  time.Duration
	revision int64
	// storedVersions is whether the command works for a controller whose spec.rollout was removed too.
	storedVersions bool
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
	status := p.rolloutSubcommand("status", "Show where a rollout is",
		`Show where the rollout of a controller is. With --watch, wait until the version in the spec is
complete; the exit code is 1 if it is rolled back, or if that version is not accepted.`, asText, (*rolloutRun).status)
	pause := p.rolloutSubcommand("pause", "Stop a rollout where it is", "Stop a rollout where it is: sets spec.rollout.paused.", "",
		(*rolloutRun).pause)
	resume := p.rolloutSubcommand("resume", "Continue a rollout, or start it again",
		`Continue a paused rollout, or start it again after a rollback: unsets spec.rollout.paused, or
sets the annotation setpoint.dev/rollout-retry-at.`, "", (*rolloutRun).resume)
	undo := p.rolloutSubcommand("undo", "Return to an earlier version",
		`Write the hooks of the version before, or of another revision, into the spec, and their code into
its ConfigMaps. In the middle of a rollout, the version before ends it, and moved parents return. If
the version in the spec is not in use yet, the one in use is the version before. Any other one is
rolled out in steps. Change the files of the controller too: a tool that applies them
would write the new version again.`, "", (*rolloutRun).undo)
	history := p.rolloutSubcommand("history", "List the versions",
		`List the versions of the hooks of a controller that were rolled out. -o yaml shows them whole.`, asTable, (*rolloutRun).history)
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
			if err := f.check(c); err != nil {
				return err
			}
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

// check rejects invalid flags.
func (f *rolloutFlags) check(c *cobra.Command) error {
	named := c.Flags().Changed("to-revision")
	f.storedVersions = named || c.Name() == "history"
	switch {
	case named && f.revision <= 0:
		return usageError{fmt.Errorf("--to-revision must be greater than zero, not %d", f.revision)}
	case f.timeout < 0:
		return usageError{fmt.Errorf("--timeout must not be negative, not %s", f.timeout)}
	case f.timeout > 0 && !f.watch:
		return usageError{errors.New("--timeout is only for --watch")}
	}
	return nil
}

// rolloutArgs completes controllers that can have rollouts.
func (by completer) rolloutArgs(ctx context.Context, args []string, word string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveDefault
	}
	words := slices.DeleteFunc(by.controllers(ctx, word, ""), func(name string) bool {
		return !strings.HasPrefix(name, "compositecontroller") && !strings.HasPrefix(name, "decoratorcontroller") &&
			!strings.HasPrefix(name, "spcc/") && !strings.HasPrefix(name, "spdc/") ||
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
		Suspend         bool              `json:"suspend"`
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
	if r.controller.Spec.Rollout == nil && !f.storedVersions {
		return nil, r.noRollout()
	}
	return r, nil
}

func (r *rolloutRun) noRollout() error {
	return errorWithHint{fmt.Errorf("%s has no spec.rollout: changed hooks reconcile all parents at once", r.name),
		"see docs/change-logic.md"}
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
	return controllerNamed(arg, "", func(kind compile.Kind) (*object.Object, error) {
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

func (r *rolloutRun) pause(ctx context.Context) error {
	if r.controller.Spec.Rollout.Paused {
		fmt.Fprintf(r.stdout, "%s: rollout is paused already\n", r.name)
		return nil
	}
	if err := r.setPaused(ctx, true); err != nil {
		return err
	}
	fmt.Fprintf(r.stdout, "%s: rollout paused\n", r.name)
	return nil
}

func (r *rolloutRun) resume(ctx context.Context) error {
	s, paused := r.controller.Status.Rollout, r.controller.Spec.Rollout.Paused
	if paused {
		if err := r.setPaused(ctx, false); err != nil {
			return err
		}
	}
	done := "rollout resumed"
	switch {
	case s != nil && s.Phase == setpoint.RolloutRolledBack:
		if err := r.perms.annotate(ctx, r.ref, setpoint.AnnotationRolloutRetryAt, time.Now().UTC().Format(time.RFC3339Nano)); err != nil {
			return err
		}
		done = "rollout starts again"
	case !paused:
		done = "rollout is not paused"
	}
	fmt.Fprintf(r.stdout, "%s: %s\n", r.name, done)
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
