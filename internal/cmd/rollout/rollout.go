// Package rollout is `setpoint rollout`: it shows and controls the rollout of changed hooks.
package rollout

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/types"

	setpoint "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/internal/cli/client"
	"github.com/setpoint-dev/setpoint/internal/cli/command"
	"github.com/setpoint-dev/setpoint/internal/cli/output"
	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/dashboard/userclient"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// rolloutFlags are the flags of the commands of `setpoint rollout`.
type rolloutFlags struct {
	output.PrintFlags
	cluster client.ClusterFlags
	watch   bool
	timeout time.Duration
	// storedVersions is whether the command works for a controller whose spec.rollout was removed too.
	storedVersions bool
}

// Command returns `setpoint rollout`.
func Command(p *command.Invocation) *cobra.Command {
	c := &cobra.Command{
		Use:   "rollout COMMAND CONTROLLER",
		Short: "Show and control the rollout of changed hooks",
		Long: `Show and control the rollout of changed hooks of a controller with spec.rollout.

CONTROLLER is a CompositeController or DecoratorController of setpoint.dev, as KIND/NAME, or its
NAME if that is unambiguous.`,
		Args: command.NoCommand,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	for _, one := range subcommands() {
		c.AddCommand(one.command(p))
	}
	return c
}

// subcommand is a command about the rollout of one controller.
type subcommand struct {
	name, short, long string
	// format is the default of those that it prints; empty for none.
	format string
	run    func(*rolloutRun, context.Context) error
}

func subcommands() []subcommand {
	return []subcommand{
		{"status", "Show where a rollout is",
			`Show where the rollout of a controller is. With --watch, wait until the version in the spec is
complete; the exit code is 1 if it is rolled back, or if that version is not accepted.`, output.AsText, (*rolloutRun).status},
		{"pause", "Stop a rollout where it is", "Stop a rollout where it is: sets spec.rollout.paused.", "", (*rolloutRun).pause},
		{"resume", "Continue a rollout, or start it again",
			`Continue a paused rollout, or start it again after a rollback: unsets spec.rollout.paused, or
sets the annotation setpoint.dev/rollout-retry-at.`, "", (*rolloutRun).resume},
		{"history", "List the versions", `List the versions of the hooks of a controller that were rolled out. -o yaml shows them whole,
with their code, for the files of the controller: what is written into its spec is rolled out.`,
			output.AsTable, (*rolloutRun).history},
	}
}

func (s *subcommand) command(p *command.Invocation) *cobra.Command {
	f := &rolloutFlags{PrintFlags: output.NewPrintFlags(output.AsText), storedVersions: s.name == "history"}
	if s.format != "" {
		f.PrintFlags = output.NewPrintFlags(s.format, output.AsJSON, output.AsYAML)
	}
	none := ""
	c := &cobra.Command{
		Use: s.name + " CONTROLLER", Short: s.short, Long: s.long, Example: "  setpoint rollout " + s.name + " teams",
		Args: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return command.UsageErrorf("no controller given, such as compositecontroller.setpoint.dev/NAME")
			}
			return command.NoArguments(c, args[1:])
		},
		ValidArgsFunction: client.Complete(&f.cluster, &none, completeRollout),
		RunE: func(c *cobra.Command, args []string) error {
			if err := f.check(); err != nil {
				return err
			}
			r, err := open(c.Context(), p, f, args[0])
			if err != nil {
				return err
			}
			return s.run(r, c.Context())
		},
	}
	f.cluster.Register(c)
	if s.format != "" {
		f.Register(c)
	}
	if s.name == "status" {
		c.Flags().BoolVarP(&f.watch, "watch", "w", false, "wait until the rollout is complete or rolled back")
		c.Flags().DurationVar(&f.timeout, "timeout", 0, "end --watch with an error after this time (default: never)")
	}
	return c
}

// check rejects invalid flags.
func (f *rolloutFlags) check() error {
	switch {
	case f.timeout < 0:
		return command.UsageErrorf("--timeout must not be negative, not %s", f.timeout)
	case f.timeout > 0 && !f.watch:
		return command.UsageErrorf("--timeout is only for --watch")
	}
	return nil
}

// completeRollout completes controllers that can have rollouts.
func completeRollout(ctx context.Context, by client.Completer, args []string, word string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveDefault
	}
	words := slices.DeleteFunc(by.Controllers(ctx, word, ""), func(name string) bool {
		return !strings.HasPrefix(name, "compositecontroller") && !strings.HasPrefix(name, "decoratorcontroller") &&
			!strings.HasPrefix(name, "spcc/") && !strings.HasPrefix(name, "spdc/") ||
			strings.Contains(name, ".metacontroller.")
	})
	return command.WithPrefix(word, words), cobra.ShellCompDirectiveDefault
}

// rolloutRun is one run of a command about the rollout of a controller.
type rolloutRun struct {
	*command.Invocation
	*rolloutFlags
	client *client.Client
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

// open finds a controller that has rollouts.
func open(ctx context.Context, p *command.Invocation, f *rolloutFlags, arg string) (*rolloutRun, error) {
	user, err := f.cluster.Connect()
	if err != nil {
		return nil, err
	}
	r := &rolloutRun{Invocation: p, rolloutFlags: f, client: user}
	stored, err := r.client.StoredController(ctx, arg, "no controller")
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
	return command.WithHint(fmt.Errorf("%s has no spec.rollout: changed hooks reconcile all parents at once", r.name),
		"see docs/change-logic.md")
}

func (r *rolloutRun) pause(ctx context.Context) error {
	if r.controller.Spec.Rollout.Paused {
		fmt.Fprintf(r.Stdout, "%s: rollout is paused already\n", r.name)
		return nil
	}
	if err := r.setPaused(ctx, true); err != nil {
		return err
	}
	fmt.Fprintf(r.Stdout, "%s: rollout paused\n", r.name)
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
		if err := r.client.Annotate(ctx, r.ref, setpoint.AnnotationRolloutRetryAt, time.Now().UTC().Format(time.RFC3339Nano)); err != nil {
			return err
		}
		done = "rollout starts again"
	case !paused:
		done = "rollout is not paused"
	}
	fmt.Fprintf(r.Stdout, "%s: %s\n", r.name, done)
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
	_, err = r.client.API.Patch(ctx, r.ref, types.MergePatchType, patch, userclient.WriteOptions{})
	return err
}
