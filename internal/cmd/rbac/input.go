package rbac

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"

	"github.com/setpoint-dev/setpoint/internal/cli/client"
	"github.com/setpoint-dev/setpoint/internal/cli/command"
	"github.com/setpoint-dev/setpoint/internal/cli/manifests"
	"github.com/setpoint-dev/setpoint/internal/cli/output"
	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/dashboard/userclient"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/manager"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/workspace"
)

// rbacInput are the objects in files, and the names of stored controllers.
type rbacInput struct {
	controllers, definitions []*object.Object
	names                    []string
}

// input reads the files of the arguments.
func (r *rbacRun) input(args []string) (in rbacInput, err error) {
	files := slices.Clone(r.files)
	for _, arg := range args {
		if manifests.IsFile(arg) {
			files = append(files, arg)
			continue
		}
		in.names = append(in.names, arg)
	}
	switch {
	case r.everything && len(files)+len(in.names) > 0:
		return in, command.UsageErrorf("-A is all controllers of the cluster; give either that, or files and controllers")
	case !r.everything && len(files)+len(in.names) == 0:
		return in, command.UsageErrorf("no controllers given; give files, compositecontroller.setpoint.dev/NAME, or -A")
	}
	objects, err := manifests.ReadObjects(files)
	for _, o := range objects {
		if _, is := compile.KindOf(o); is {
			in.controllers = append(in.controllers, o)
		}
		if o.Kind() == "CustomResourceDefinition" {
			in.definitions = append(in.definitions, o)
		}
	}
	if err == nil && len(files) > 0 && len(in.controllers) == 0 {
		err = fmt.Errorf("no controller in %s", strings.Join(files, ", "))
	}
	return in, err
}

// controllers returns the controllers of files and of the cluster.
func (r *rbacRun) controllers(ctx context.Context, in rbacInput) ([]*object.Object, error) {
	all := in.controllers
	for _, name := range in.names {
		stored, err := r.client.StoredController(ctx, name, "neither a file nor a controller")
		if err != nil {
			return nil, err
		}
		all = append(all, stored)
	}
	if !r.everything {
		return all, nil
	}
	all, err := r.needs.Stored(ctx)
	if err == nil && len(all) == 0 {
		err = errors.New("the cluster has no controllers")
	}
	return all, err
}

// completeRBAC completes controllers of the cluster.
func completeRBAC(ctx context.Context, by client.Completer, args []string, word string) ([]string, cobra.ShellCompDirective) {
	words := slices.DeleteFunc(by.Controllers(ctx, word, ""), func(w string) bool { return slices.Contains(args, w) })
	return command.WithPrefix(word, words), cobra.ShellCompDirectiveDefault
}

// orFiles completes files if a function completes nothing.
func orFiles(find cobra.CompletionFunc) cobra.CompletionFunc {
	return func(c *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
		words, directive := find(c, args, word)
		if len(words) == 0 {
			directive &^= cobra.ShellCompDirectiveNoFileComp
		}
		return words, directive
	}
}

// declaredRelated returns the kinds of --related.
func (r *rbacRun) declaredRelated(ctx context.Context) ([]object.Resource, error) {
	var all []object.Resource
	for _, word := range r.related {
		if r.offline != nil {
			resource, err := r.offline.kinds.Named(word)
			if err != nil {
				return nil, command.UsageErrorf("--related: %w", err)
			}
			all = append(all, resource)
			continue
		}
		kind, err := r.client.Kind(ctx, word)
		if err != nil {
			return nil, err
		}
		all = append(all, object.Resource{Group: kind.Group, Version: kind.Version, Plural: kind.Plural, Kind: kind.Kind,
			Namespaced: kind.Namespaced})
	}
	return all, nil
}

// offline stands for the cluster if there is none.
type offline struct {
	// why is why there is no cluster.
	why   error
	kinds *workspace.Kinds
}

// connect finds the cluster. Controllers in files do not need one: without it, r.offline is set.
func (r *rbacRun) connect(ctx context.Context, in rbacInput) (*rest.Config, error) {
	cluster, err := r.cluster.Find()
	if err == nil {
		r.client, err = client.New(cluster)
	}
	if r.everything || len(in.names) > 0 {
		return cluster.Config, err
	}
	if err == nil {
		_, err = r.client.API.Kinds(ctx)
	}
	if !errors.Is(err, manager.ErrNoCluster) && !errors.Is(err, userclient.ErrUnreachable) {
		return cluster.Config, err
	}
	kinds, wrong := workspace.NewKinds(in.definitions)
	r.offline = &offline{why: err, kinds: kinds}
	return &rest.Config{}, wrong
}

// comments say what was assumed.
func (o *offline) comments(impersonates bool) []string {
	all := []string{"The cluster was not read: " + output.Clean(failure.Text(o.why)) + "."}
	if assumed := o.kinds.Assumed(); len(assumed) > 0 {
		all = append(all, "Assumed to be namespaced: "+strings.Join(assumed, ", ")+". Add their CRDs to the files to be sure.")
	}
	if impersonates {
		all = append(all, "Assumed to be older than Kubernetes 1.36, which can limit impersonation.")
	}
	return all
}
