package client

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/setpoint-dev/setpoint/internal/cli/command"
	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/manager"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// CompleteLimit bounds the time of one completion.
const CompleteLimit = 2 * time.Second

// Completer completes arguments from the cluster, with the user's permissions. A shell
// shows no errors, so what cannot be read is left out.
type Completer struct {
	*Client
	// namespace is the namespace of the objects.
	namespace string
}

// completeFunc completes the next argument.
type completeFunc func(ctx context.Context, by Completer, args []string, word string) ([]string, cobra.ShellCompDirective)

// Complete returns the completion function of a command.
func Complete(cluster *ClusterFlags, namespace *string, find completeFunc) cobra.CompletionFunc {
	return func(c *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
		ctx, cancel := context.WithTimeout(c.Context(), CompleteLimit)
		defer cancel()
		found, err := cluster.Connect()
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		by := Completer{Client: found, namespace: cmp.Or(*namespace, found.Cluster.Namespace)}
		words, directive := find(ctx, by, args, word)
		return words, directive | cobra.ShellCompDirectiveNoFileComp
	}
}

// CompleteNamespaces completes flags that take a namespace.
func CompleteNamespaces(c *cobra.Command, cluster *ClusterFlags, flags ...string) {
	none := ""
	find := Complete(cluster, &none, func(ctx context.Context, by Completer, _ []string, word string) ([]string, cobra.ShellCompDirective) {
		names, _ := by.API.Namespaces(ctx) // As many as arrived in time.
		return command.WithPrefix(word, names), cobra.ShellCompDirectiveDefault
	})
	for _, name := range flags {
		_ = c.RegisterFlagCompletionFunc(name, find) // It fails only for an undefined flag.
	}
}

// CompleteObject completes KIND/NAME, and NAME after KIND.
func CompleteObject(ctx context.Context, by Completer, args []string, word string) ([]string, cobra.ShellCompDirective) {
	kind, _, named := strings.Cut(word, "/")
	switch {
	case len(args) == 0 && !named:
		return by.kindWords(ctx, word), cobra.ShellCompDirectiveNoSpace
	case len(args) == 0:
		return command.WithPrefix(word, by.objectNames(ctx, kind, kind+"/")), cobra.ShellCompDirectiveDefault
	case len(args) == 1 && !strings.Contains(args[0], "/"):
		return command.WithPrefix(word, by.objectNames(ctx, args[0], "")), cobra.ShellCompDirectiveDefault
	}
	return nil, cobra.ShellCompDirectiveDefault
}

// kindWords completes the kinds of the API server as "kind/", with the group where the plural
// is ambiguous or the user has begun one.
func (by Completer) kindWords(ctx context.Context, word string) []string {
	all, _ := by.API.Kinds(ctx) // As many as arrived in time.
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
	return slices.Compact(slices.Sorted(slices.Values(command.WithPrefix(word, words))))
}

// objectNames completes the names of objects of a kind, with lead before each.
func (by Completer) objectNames(ctx context.Context, word, lead string) []string {
	kind, err := by.API.FindKind(ctx, word)
	if err != nil {
		return nil
	}
	names, _ := by.API.Names(ctx, kind, kind.Within(by.namespace)) // As many as arrived in time.
	for i, name := range names {
		names[i] = lead + name
	}
	return names
}

// Controllers completes controllers by their full names, or of the kind that word starts
// with. Those of the kind except are left out of the former.
func (by Completer) Controllers(ctx context.Context, word, except string) []string {
	if typed, _, split := strings.Cut(word, "/"); split {
		kind, err := by.API.FindKind(ctx, typed)
		if _, is := controllerKind(kind); err != nil || !is {
			return nil
		}
		return by.objectNames(ctx, typed, typed+"/")
	}
	var words []string
	for _, kind := range compile.Kinds() {
		if kind.Resource.Kind == except {
			continue
		}
		words = append(words, by.objectNames(ctx, kind.Resource.Plural+"."+kind.Resource.Group, kind.Name+"/")...)
	}
	return words
}

// Objects completes the objects that a controller handles: NAME, or KIND/NAME if there are
// several kinds or word has one already.
func (by Completer) Objects(ctx context.Context, kind compile.Kind, name, word string) []string {
	served, err := by.API.FindKind(ctx, kind.Resource.Plural+"."+kind.Resource.Group)
	if err != nil {
		return nil
	}
	stored, err := by.Read(ctx, object.Ref{Kind: served, Name: name})
	if err != nil || stored == nil {
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
		words = append(words, by.objectNames(ctx, resource, lead)...)
	}
	return words
}

// sameKind reports whether two words name the same kind.
func (by Completer) sameKind(ctx context.Context, a, b string) bool {
	one, err := by.API.FindKind(ctx, a)
	if err != nil {
		return false
	}
	other, err := by.API.FindKind(ctx, b)
	return err == nil && one == other
}

// PlaceFlags select a cluster and a namespace in it.
type PlaceFlags struct {
	Cluster   ClusterFlags
	Namespace string
}

// OfObjects is the usage of the namespace of objects.
const OfObjects = "`namespace` of the objects (default: that of the context)"

// RegisterPlace adds the flags, with the default and the usage of the namespace.
func (f *PlaceFlags) RegisterPlace(c *cobra.Command, namespace, usage string) {
	set := c.Flags()
	set.SortFlags = false
	f.Cluster.Register(c)
	set.StringVarP(&f.Namespace, "namespace", "n", namespace, usage)
	CompleteNamespaces(c, &f.Cluster, "namespace")
}

// Find finds the cluster, with the namespace that was given.
func (f *PlaceFlags) Find() (manager.Cluster, error) {
	found, err := f.Cluster.Find()
	if f.Namespace != "" {
		found.Namespace = f.Namespace
	}
	return found, err
}

// Connect connects to the cluster with the credentials of the user.
func (f *PlaceFlags) Connect() (*Client, error) { return connect(f.Find()) }
