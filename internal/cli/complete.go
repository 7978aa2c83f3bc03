package cli

import (
	"context"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	setpoint "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// completeLimit bounds the time of one completion.
const completeLimit = 2 * time.Second

// completer completes arguments from the cluster, with the user's permissions. A shell
// shows no errors, so what cannot be read is left out.
type completer struct {
	*permissions
	// namespace is the namespace of the objects.
	namespace string
}

// complete returns the completion function of a command.
func complete(cluster *clusterFlags, namespace *string, find func(completer, context.Context, []string, string) ([]string,
	cobra.ShellCompDirective)) cobra.CompletionFunc {
	return func(c *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
		ctx, cancel := context.WithTimeout(c.Context(), completeLimit)
		defer cancel()
		found, err := cluster.find()
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		perms, err := newPermissions(found)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		by := completer{permissions: perms, namespace: *namespace}
		if by.namespace == "" {
			by.namespace = found.Namespace
		}
		words, directive := find(by, ctx, args, word)
		return words, directive | cobra.ShellCompDirectiveNoFileComp
	}
}

// completeNamespaces completes flags that take a namespace.
func completeNamespaces(c *cobra.Command, cluster *clusterFlags, flags ...string) {
	none := ""
	find := complete(cluster, &none, func(by completer, ctx context.Context, _ []string, word string) ([]string, cobra.ShellCompDirective) {
		names, _ := by.api.Namespaces(ctx) // As many as arrived in time.
		return withPrefix(word, names), cobra.ShellCompDirectiveDefault
	})
	for _, name := range flags {
		_ = c.RegisterFlagCompletionFunc(name, find) // It fails only for an undefined flag.
	}
}

// object completes KIND/NAME, and NAME after KIND.
func (by completer) object(ctx context.Context, args []string, word string) ([]string, cobra.ShellCompDirective) {
	kind, _, named := strings.Cut(word, "/")
	switch {
	case len(args) == 0 && !named:
		return by.kinds(ctx, word), cobra.ShellCompDirectiveNoSpace
	case len(args) == 0:
		return withPrefix(word, by.names(ctx, kind, kind+"/")), cobra.ShellCompDirectiveDefault
	case len(args) == 1 && !strings.Contains(args[0], "/"):
		return withPrefix(word, by.names(ctx, args[0], "")), cobra.ShellCompDirectiveDefault
	}
	return nil, cobra.ShellCompDirectiveDefault
}

// kinds completes the kinds of the API server as "kind/", with the group where the plural
// is ambiguous or the user has begun one.
func (by completer) kinds(ctx context.Context, word string) []string {
	all, _ := by.api.Kinds(ctx) // As many as arrived in time.
	groups := map[string][]string{}
	for _, kind := range all {
		if !slices.Contains(groups[kind.Plural], kind.Group) {
			groups[kind.Plural] = append(groups[kind.Plural], kind.Group)
		}
	}
	var words []string
	for _, kind := range all {
		if kind.Group == "" || len(groups[kind.Plural]) == 1 && !strings.Contains(word, ".") {
			words = append(words, kind.Plural+"/")
			continue
		}
		words = append(words, kind.Resource()+"/")
	}
	return slices.Compact(slices.Sorted(slices.Values(withPrefix(word, words))))
}

// names completes the names of objects of a kind, with lead before each.
func (by completer) names(ctx context.Context, word, lead string) []string {
	kind, err := by.api.Kind(ctx, word)
	if err != nil {
		return nil
	}
	namespace := ""
	if kind.Namespaced {
		namespace = by.namespace
	}
	names, _ := by.api.Names(ctx, kind, namespace) // As many as arrived in time.
	for i, name := range names {
		names[i] = lead + name
	}
	return names
}

// planArgs completes a controller of the cluster, then objects that it handles.
func (by completer) planArgs(ctx context.Context, args []string, word string) ([]string, cobra.ShellCompDirective) {
	if len(args) == 0 {
		// Admission controllers have no objects to plan.
		return withPrefix(word, by.controllers(ctx, word, setpoint.AdmissionControllerKind)), cobra.ShellCompDirectiveDefault
	}
	kind, name, is, err := by.controllerArg(ctx, args[0])
	if err != nil || !is {
		return nil, cobra.ShellCompDirectiveDefault // The controller is in a file.
	}
	words := by.objects(ctx, kind, name, word)
	words = slices.DeleteFunc(words, func(w string) bool { return slices.Contains(args, w) })
	return slices.Compact(slices.Sorted(slices.Values(withPrefix(word, words)))), cobra.ShellCompDirectiveDefault
}

// rbacArgs completes controllers of the cluster.
func (by completer) rbacArgs(ctx context.Context, args []string, word string) ([]string, cobra.ShellCompDirective) {
	words := slices.DeleteFunc(by.controllers(ctx, word, ""), func(w string) bool { return slices.Contains(args, w) })
	return withPrefix(word, words), cobra.ShellCompDirectiveDefault
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

// controllers completes controllers by their full names, or of the kind that word starts
// with. Those of the kind except are left out of the former.
func (by completer) controllers(ctx context.Context, word, except string) []string {
	if typed, _, split := strings.Cut(word, "/"); split {
		kind, err := by.api.Kind(ctx, typed)
		if _, is := controllerKind(kind); err != nil || !is {
			return nil
		}
		return by.names(ctx, typed, typed+"/")
	}
	var words []string
	for _, kind := range compile.Kinds() {
		if kind.Resource.Kind == except {
			continue
		}
		words = append(words, by.names(ctx, kind.Resource.Plural+"."+kind.Resource.Group, kind.Name+"/")...)
	}
	return words
}

// objects completes the objects that a controller handles: NAME, or KIND/NAME if there are
// several kinds or word has one already.
func (by completer) objects(ctx context.Context, kind compile.Kind, name, word string) []string {
	served, err := by.api.Kind(ctx, kind.Resource.Plural+"."+kind.Resource.Group)
	if err != nil {
		return nil
	}
	text, err := by.api.Get(ctx, served, "", name)
	if err != nil {
		return nil
	}
	stored, err := object.Parse(text)
	if err != nil {
		return nil
	}
	parents := kind.Footprint(stored).Parents
	typed, _, slashed := strings.Cut(word, "/")
	var words []string
	for _, parent := range parents {
		resource, lead := strings.TrimSuffix(parent.Plural+"."+parent.Group(), "."), ""
		switch {
		case slashed && !by.sameKind(ctx, typed, resource):
			continue
		case slashed:
			lead = typed + "/"
		case len(parents) > 1:
			lead = parent.Plural + "/"
		}
		words = append(words, by.names(ctx, resource, lead)...)
	}
	return words
}

// sameKind reports whether two words name the same kind.
func (by completer) sameKind(ctx context.Context, a, b string) bool {
	one, err := by.api.Kind(ctx, a)
	if err != nil {
		return false
	}
	other, err := by.api.Kind(ctx, b)
	return err == nil && one == other
}

// runningWords says which running controllers and objects a command completes; all by default.
type runningWords struct {
	controller func(*inspect.Controller) bool
	object     func(*inspect.ObjectState) bool
	// objects is the most objects that the command takes.
	objects int
}

// withHeldDeletions completes what the deletion guard holds.
func withHeldDeletions() runningWords {
	return runningWords{
		controller: func(c *inspect.Controller) bool { return c.HeldDeletions > 0 },
		object:     func(o *inspect.ObjectState) bool { return o.HeldDeletions > 0 },
		objects:    1,
	}
}

// reconcilable completes what `setpoint reconcile` accepts.
func reconcilable() runningWords {
	return runningWords{
		controller: func(c *inspect.Controller) bool { return checkReconcilable(c) == nil },
		object:     func(o *inspect.ObjectState) bool { return o.State != inspect.StatePaused },
		objects:    math.MaxInt,
	}
}

// completeRunning completes a running controller, then objects of it.
func completeRunning(f *readFlags, words runningWords) cobra.CompletionFunc {
	return completeSession(f, func(ctx context.Context, r *session, args []string, word string) []string {
		switch {
		case len(args) == 0:
			return r.completeControllers(ctx, word, words.controller)
		case len(args) <= words.objects:
			found := r.completeObjects(ctx, args[0], word, words.object)
			return slices.DeleteFunc(found, func(w string) bool { return slices.Contains(args[1:], w) })
		}
		return nil
	})
}

// completeSession returns a completion function that reads the running processes.
func completeSession(f *readFlags, find func(context.Context, *session, []string, string) []string) cobra.CompletionFunc {
	return func(c *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
		ctx, cancel := context.WithTimeout(c.Context(), completeLimit)
		defer cancel()
		r, err := f.open(ctx, &program{stderr: io.Discard})
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return withPrefix(word, find(ctx, r, args, word)), cobra.ShellCompDirectiveNoFileComp
	}
}

// completeProcesses completes the names of processes.
func completeProcesses(_ context.Context, r *session, _ []string, _ string) []string {
	var names []string
	for _, source := range r.sources {
		names = append(names, source.Name())
	}
	return names
}

// completeControllers completes controller names; if none has the prefix, it returns their
// short names.
func (r *session) completeControllers(ctx context.Context, word string, keep func(*inspect.Controller) bool) []string {
	all, _ := r.controllers(ctx) // A shell shows no error.
	all, _ = r.permissions.controllers(ctx, all)
	var names, ends []string
	for i := range all {
		if keep != nil && !keep(&all[i]) {
			continue
		}
		names = append(names, all[i].Name)
		ends = append(ends, shortName(all[i].Name, all))
	}
	if names = withPrefix(word, names); len(names) > 0 {
		return names
	}
	return ends
}

// completeObjects completes the objects of a controller: NAME, or KIND/NAME if it has several
// kinds.
func (r *session) completeObjects(ctx context.Context, controller, word string, keep func(*inspect.ObjectState) bool) []string {
	c, source, err := r.controller(ctx, controller, "")
	if err != nil {
		return nil
	}
	kinds, err := r.permissions.listable(ctx, c.Kinds, r.target.Namespace)
	if err != nil {
		return nil
	}
	kind, name, slashed := strings.Cut(word, "/")
	if !slashed {
		name = word
	}
	typed, _ := r.permissions.api.Kind(ctx, kind) // Zero without a kind.
	page, _ := source.Objects(ctx, c.Name, inspect.Query{Text: strings.ToLower(name), Namespace: r.target.Namespace, Sort: "name",
		Limit: pageSize})
	var words []string
	for _, o := range page.Objects {
		switch {
		case !containsKind(kinds, o.Kind) || keep != nil && !keep(&o):
		case slashed && o.GroupKind() != typed.GroupKind():
		case slashed:
			words = append(words, kind+"/"+o.Name)
		case len(c.Kinds) > 1:
			words = append(words, nameArg(o.Ref))
		default:
			words = append(words, o.Name)
		}
	}
	return words
}

// withPrefix returns the words that start with prefix.
func withPrefix(so string, words []string) []string {
	return slices.DeleteFunc(words, func(w string) bool { return !strings.HasPrefix(w, so) })
}
