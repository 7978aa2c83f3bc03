package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/setpoint-dev/setpoint/internal/asuser"
	"github.com/setpoint-dev/setpoint/internal/host"
	"github.com/setpoint-dev/setpoint/internal/inspect"
)

// asker answers what the user may do, and what kinds are called where a process does
// not say it: an asuser.Client.
type asker interface {
	May(ctx context.Context, verb string, kind inspect.Kind, namespace, name string) (bool, error)
	Kind(ctx context.Context, name string) (inspect.Kind, error)
}

// rights are those of the user, as the API server has them. A process tells all that it
// sees to whoever reaches it, so that it is here that what the user may not read is
// left out.
type rights struct {
	asker
	// api is the API server as the user sees it.
	api *asuser.Client

	mu sync.Mutex
	// doubt is why it is not known whether something may be shown.
	doubt error
}

func newRights(of host.Cluster) (*rights, error) {
	config := *of.Config
	config.UserAgent = of.UserAgent
	api, err := asuser.New(&config)
	if err != nil {
		return nil, err
	}
	client, err := api.As(asuser.User{Own: true})
	if err != nil {
		return nil, err
	}
	return &rights{asker: client, api: client}, nil
}

// may asks for a right. What is of no known kind nobody may. Where nobody answers, it is
// no for now, and sure says so.
func (r *rights) may(ctx context.Context, verb string, kind inspect.Kind, namespace, name string) bool {
	if kind.Plural == "" {
		word := strings.TrimSuffix(strings.ToLower(kind.Kind)+"."+kind.Group, ".")
		served, err := r.Kind(ctx, word)
		if err != nil {
			r.note(err)
			return false
		}
		kind = served
	}
	if r.doubted() {
		return false // One answer that does not come is enough to wait for.
	}
	allowed, err := r.May(ctx, verb, kind, namespace, name)
	r.note(err)
	return allowed
}

// note notes that nobody answers. Any other error is a no.
func (r *rights) note(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.doubt == nil && errors.Is(err, asuser.ErrUnreachable) {
		r.doubt = fmt.Errorf("ask what you may see: %w", err)
	}
}

func (r *rights) doubted() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.doubt != nil
}

// sure says that what was left out since it was asked before is not the user's to see.
// It is an error that nobody could say so.
func (r *rights) sure() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	doubt := r.doubt
	r.doubt = nil
	return doubt
}

// run is a run as far as the user may read it.
func (r *rights) run(ctx context.Context, run inspect.Run) inspect.Run {
	return inspect.Redact(run, r.reads(ctx))
}

// reads says whether the user may read objects of a kind in a namespace.
func (r *rights) reads(ctx context.Context) func(inspect.Kind, string) bool {
	return func(kind inspect.Kind, namespace string) bool { return r.may(ctx, "get", kind, namespace, "") }
}

// asks are questions for the rights of the user.
func (r *rights) asks(ctx context.Context) inspect.Asking {
	return func(verb string, kind inspect.Kind, namespace, name string) bool {
		return r.may(ctx, verb, kind, namespace, name)
	}
}

// care leaves out errors and children that the user may not read, and counts those.
func (r *rights) care(ctx context.Context, care inspect.Care) readable {
	care = inspect.RedactCare(care, r.reads(ctx))
	all := len(care.Family)
	care.Family = slices.DeleteFunc(slices.Clone(care.Family), func(c inspect.Child) bool {
		return !r.may(ctx, "get", c.Kind, c.Namespace, "")
	})
	return readable{Care: care, Hidden: all - len(care.Family)}
}

// cares are all of them as far as the user may read them.
func (r *rights) cares(ctx context.Context, all []inspect.Care) []readable {
	found := []readable{}
	for _, care := range all {
		found = append(found, r.care(ctx, care))
	}
	return found
}

// readable is how an object is doing, as far as the user may read that.
type readable struct {
	inspect.Care
	// Hidden is how many of the children are not among the Family.
	Hidden int `json:"hidden,omitempty"`
	// Elsewhere says that another process does the work of the one that says this.
	Elsewhere bool `json:"elsewhere,omitempty"`
}

// hiddenChildren says of children that they are left out.
func hiddenChildren(n int) string { return fmt.Sprintf("and %d that you may not see", n) }

// controllers are those that the user may know of, as far as they may read them, and how
// many others there are.
func (r *rights) controllers(ctx context.Context, all []inspect.Controller) (seen []inspect.Controller, hidden int) {
	seen = []inspect.Controller{}
	for i := range all {
		if inspect.MaySee(&all[i], r.asks(ctx)) {
			seen = append(seen, inspect.RedactController(all[i], r.asks(ctx)))
		}
	}
	return seen, len(all) - len(seen)
}

// someOf says whether the user may list objects of one of some kinds in a namespace, or
// get the one of that name, if it is not "".
func (r *rights) someOf(ctx context.Context, kinds []inspect.Kind, namespace, name string) bool {
	return slices.ContainsFunc(kinds, func(k inspect.Kind) bool {
		where := ""
		if k.Namespaced {
			where = namespace
		}
		return r.may(ctx, "list", k, where, "") || name != "" && r.may(ctx, "get", k, where, name)
	})
}

// listable are those of some kinds whose objects the user may list in a namespace, or
// in all without one. It is an error if there are none.
func (r *rights) listable(ctx context.Context, kinds []inspect.Kind, namespace string) (found []inspect.Kind, err error) {
	var lacking []string
	for _, kind := range kinds {
		where := ""
		if kind.Namespaced {
			where = namespace
		}
		if r.may(ctx, "list", kind, where, "") {
			found = append(found, kind)
			continue
		}
		lacking = append(lacking, asuser.Right{Verb: "list", Resource: kind.Plural, Group: kind.Group, Namespace: where}.String())
	}
	if err := r.sure(); err != nil {
		return nil, err
	}
	if len(found) > 0 || len(lacking) == 0 {
		return found, nil
	}
	err = fmt.Errorf("you lack the right to %s", clean(strings.Join(lacking, ", or to ")))
	return nil, hinted{err, "objects are shown to those who may list them; -n names a namespace where you may"}
}

// isAmong says whether an object is of one of some kinds.
func isAmong(kinds []inspect.Kind, of inspect.Kind) bool {
	return slices.ContainsFunc(kinds, func(k inspect.Kind) bool { return k.Group == of.Group && k.Kind == of.Kind })
}
