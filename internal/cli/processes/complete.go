package processes

import (
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/setpoint-dev/setpoint/internal/cli/client"
	"github.com/setpoint-dev/setpoint/internal/cli/command"
	"github.com/setpoint-dev/setpoint/internal/inspect"
)

// RunningWords says which running controllers and objects a command completes; all by default.
type RunningWords struct {
	Controller func(*inspect.Controller) bool
	Object     func(*inspect.ObjectState) bool
	// Objects is the most objects that the command takes.
	Objects int
}

// CompleteRunning completes a running controller, then objects of it.
func CompleteRunning(f *ReadFlags, words RunningWords) cobra.CompletionFunc {
	return completeSession(f, func(ctx context.Context, r *Session, args []string, word string) []string {
		switch {
		case len(args) == 0:
			return r.completeControllers(ctx, word, words.Controller)
		case len(args) <= words.Objects:
			found := r.completeObjects(ctx, args[0], word, words.Object)
			return slices.DeleteFunc(found, func(w string) bool { return slices.Contains(args[1:], w) })
		}
		return nil
	})
}

// completeControllers completes controller names; if none has the prefix, it returns their
// short names.
func (r *Session) completeControllers(ctx context.Context, word string, keep func(*inspect.Controller) bool) []string {
	all, _ := r.Controllers(ctx) // A shell shows no error.
	all, _ = r.Client.Controllers(ctx, all)
	var names, ends []string
	for i := range all {
		if keep != nil && !keep(&all[i]) {
			continue
		}
		names = append(names, all[i].Name)
		ends = append(ends, ShortName(all[i].Name, all))
	}
	if names = command.WithPrefix(word, names); len(names) > 0 {
		return names
	}
	return ends
}

// completeObjects completes the objects of a controller: NAME, or KIND/NAME if it has several
// kinds.
func (r *Session) completeObjects(ctx context.Context, controller, word string, keep func(*inspect.ObjectState) bool) []string {
	c, source, err := r.Controller(ctx, controller, "")
	if err != nil {
		return nil
	}
	kinds, err := r.Client.Listable(ctx, c.Kinds, r.Target.Namespace)
	if err != nil {
		return nil
	}
	kind, name, slashed := strings.Cut(word, "/")
	if !slashed {
		name = word
	}
	typed, _ := r.Client.API.FindKind(ctx, kind) // Zero without a kind.
	page, _ := source.Objects(ctx, c.Name, inspect.Query{Text: strings.ToLower(name), Namespace: r.Target.Namespace, Sort: "name",
		Limit: pageSize})
	var words []string
	for _, o := range page.Objects {
		switch {
		case !client.ContainsKind(kinds, o.Kind) || keep != nil && !keep(&o):
		case slashed && o.GroupKind() != typed.GroupKind():
		case slashed:
			words = append(words, kind+"/"+o.Name)
		case len(c.Kinds) > 1:
			words = append(words, client.Arg(o.Ref))
		default:
			words = append(words, o.Name)
		}
	}
	return words
}
