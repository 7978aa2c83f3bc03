package plan

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	setpoint "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/internal/cli/client"
	"github.com/setpoint-dev/setpoint/internal/cli/command"
	"github.com/setpoint-dev/setpoint/internal/cli/manifests"
	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/dev/manifest"
	"github.com/setpoint-dev/setpoint/internal/dryrun"
	"github.com/setpoint-dev/setpoint/internal/manager"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// readPlanFiles reads controllers and objects from files.
func readPlanFiles(files []string) (controllers, objects []*object.Object, err error) {
	documents, err := manifest.Read(files)
	if err != nil {
		return nil, nil, err
	}
	all, err := manifests.ParseDocuments(documents)
	if err != nil {
		return nil, nil, err
	}
	for _, one := range all {
		if _, is := compile.KindOf(one); is {
			controllers = append(controllers, one)
			continue
		}
		objects = append(objects, one)
	}
	return controllers, objects, nil
}

// spansNamespaces reports whether an object is in another namespace.
func spansNamespaces(objects []*object.Object, namespace string) bool {
	return slices.ContainsFunc(objects, func(o *object.Object) bool { return o.Namespace() != "" && o.Namespace() != namespace })
}

// controllerOf returns the controller that an argument names, or nil if it names something
// else. A name without a kind is one if it is required.
func controllerOf(ctx context.Context, r *client.Client, h *manager.Manager, arg string, required bool) (*object.Object, error) {
	kind, name, is, err := r.ControllerArg(ctx, arg)
	if required && !strings.Contains(arg, "/") {
		return client.ControllerNamed(arg, ", or -f FILE with one", func(kind compile.Kind) (*object.Object,
			error) {
			return h.Get(ctx, kind.Resource, "", arg)
		})
	}
	if err != nil || !is {
		return nil, err
	}
	declared, err := h.Get(ctx, kind.Resource, "", name)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", arg, err)
	}
	if declared == nil {
		return nil, fmt.Errorf("%s not found", arg)
	}
	return declared, nil
}

// objectNames returns the objects that arguments name.
func objectNames(ctx context.Context, r *client.Client, args []string) (all []dryrun.ObjectName, err error) {
	if err := client.CheckNames(args); err != nil {
		return nil, err
	}
	for _, arg := range args {
		word, name, split := strings.Cut(arg, "/")
		if !split {
			all = append(all, dryrun.ObjectName{ObjectName: arg})
			continue
		}
		kind, err := r.Kind(ctx, word)
		if err != nil {
			return nil, err
		}
		all = append(all, dryrun.ObjectName{Kind: kind.Resource(), ObjectName: name})
	}
	return all, nil
}

// completePlan completes a controller of the cluster, then objects that it handles.
func completePlan(ctx context.Context, by client.Completer, args []string, word string) ([]string, cobra.ShellCompDirective) {
	if len(args) == 0 {
		// Admission controllers have no objects to plan.
		return command.WithPrefix(word, by.Controllers(ctx, word, setpoint.AdmissionControllerKind)), cobra.ShellCompDirectiveDefault
	}
	kind, name, is, err := by.ControllerArg(ctx, args[0])
	if err != nil || !is {
		return nil, cobra.ShellCompDirectiveDefault // The controller is in a file.
	}
	words := by.Objects(ctx, kind, name, word)
	words = slices.DeleteFunc(words, func(w string) bool { return slices.Contains(args, w) })
	return slices.Compact(slices.Sorted(slices.Values(command.WithPrefix(word, words)))), cobra.ShellCompDirectiveDefault
}
