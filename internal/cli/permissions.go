package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/setpoint-dev/setpoint/internal/dashboard/model"
	"github.com/setpoint-dev/setpoint/internal/dashboard/userclient"
	"github.com/setpoint-dev/setpoint/internal/manager"
)

// accessReviewer answers what the user may do, and what kinds are called where a process does
// not say it: an asuser.Client.
type accessReviewer interface {
	CanI(ctx context.Context, verb string, kind model.Kind, namespace, name string) (bool, error)
	Kind(ctx context.Context, name string) (model.Kind, error)
}

// permissions are those of the user, as the API server has them. A process tells all that it
// sees to whoever reaches it, so that it is here that what the user may not read is
// left out.
type permissions struct {
	accessReviewer
	// api is the API server as the user sees it.
	api *userclient.Client

	mu sync.Mutex
	// reviewErr is why it is not known whether something may be shown.
	reviewErr error
}

func newPermissions(of manager.Cluster) (*permissions, error) {
	config := *of.Config
	config.UserAgent = of.UserAgent
	api, err := userclient.New(&config)
	if err != nil {
		return nil, err
	}
	client, err := api.As(userclient.User{OwnCredentials: true})
	if err != nil {
		return nil, err
	}
	return &permissions{accessReviewer: client, api: client}, nil
}

// can asks for a right. What is of no known kind nobody may. Where nobody answers, it is
// no for now, and sure says so.
func (r *permissions) can(ctx context.Context, verb string, kind model.Kind, namespace, name string) bool {
	if kind.Plural == "" {
		word := strings.TrimSuffix(strings.ToLower(kind.Kind)+"."+kind.Group, ".")
		served, err := r.Kind(ctx, word)
		if err != nil {
			r.noteErr(err)
			return false
		}
		kind = served
	}
	if r.failed() {
		return false // One answer that does not come is enough to wait for.
	}
	allowed, err := r.CanI(ctx, verb, kind, namespace, name)
	r.noteErr(err)
	return allowed
}

// noteErr notes that nobody answers. Any other error is a no.
func (r *permissions) noteErr(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.reviewErr == nil && errors.Is(err, userclient.ErrUnreachable) {
		r.reviewErr = fmt.Errorf("ask what you may see: %w", err)
	}
}

func (r *permissions) failed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.reviewErr != nil
}

// takeErr says that what was left out since it was asked before is not the user's to see.
// It is an error that nobody could say so.
func (r *permissions) takeErr() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	doubt := r.reviewErr
	r.reviewErr = nil
	return doubt
}

// redact is a run as far as the user may read it.
func (r *permissions) redact(ctx context.Context, run model.Run) model.Run {
	return model.Redact(run, r.canRead(ctx))
}

// canRead says whether the user may read objects of a kind in a namespace.
func (r *permissions) canRead(ctx context.Context) func(model.Kind, string) bool {
	return func(kind model.Kind, namespace string) bool { return r.can(ctx, "get", kind, namespace, "") }
}

// accessCheck are questions for the rights of the user.
func (r *permissions) accessCheck(ctx context.Context) model.AccessCheck {
	return func(verb string, kind model.Kind, namespace, name string) bool {
		return r.can(ctx, verb, kind, namespace, name)
	}
}

// state leaves out errors and children that the user may not read, and counts those.
func (r *permissions) state(ctx context.Context, care model.ObjectState) visibleState {
	care = model.RedactState(care, r.canRead(ctx))
	all := len(care.ChildStates)
	care.ChildStates = slices.DeleteFunc(slices.Clone(care.ChildStates), func(c model.Child) bool {
		return !r.can(ctx, "get", c.Kind, c.Namespace, "")
	})
	return visibleState{ObjectState: care, Hidden: all - len(care.ChildStates)}
}

// states are all of them as far as the user may read them.
func (r *permissions) states(ctx context.Context, all []model.ObjectState) []visibleState {
	found := []visibleState{}
	for _, care := range all {
		found = append(found, r.state(ctx, care))
	}
	return found
}

// visibleState is how an object is doing, as far as the user may read that.
type visibleState struct {
	model.ObjectState
	// Hidden is how many of the children are not among the Family.
	Hidden int `json:"hidden,omitempty"`
	// Standby says that another process does the work of the one that says this.
	Standby bool `json:"elsewhere,omitempty"`
}

// hiddenCount says of children that they are left out.
func hiddenCount(n int) string { return fmt.Sprintf("and %d that you may not see", n) }

// controllers are those that the user may know of, as far as they may read them, and how
// many others there are.
func (r *permissions) controllers(ctx context.Context, all []model.Controller) (seen []model.Controller, hidden int) {
	seen = []model.Controller{}
	for i := range all {
		if model.CanView(&all[i], r.accessCheck(ctx)) {
			seen = append(seen, model.RedactController(all[i], r.accessCheck(ctx)))
		}
	}
	return seen, len(all) - len(seen)
}

// canSeeAny says whether the user may list objects of one of some kinds in a namespace, or
// get the one of that name, if it is not "".
func (r *permissions) canSeeAny(ctx context.Context, kinds []model.Kind, namespace, name string) bool {
	return slices.ContainsFunc(kinds, func(k model.Kind) bool {
		where := ""
		if k.Namespaced {
			where = namespace
		}
		return r.can(ctx, "list", k, where, "") || name != "" && r.can(ctx, "get", k, where, name)
	})
}

// listable are those of some kinds whose objects the user may list in a namespace, or
// in all without one. It is an error if there are none.
func (r *permissions) listable(ctx context.Context, kinds []model.Kind, namespace string) (found []model.Kind, err error) {
	var lacking []string
	for _, kind := range kinds {
		where := ""
		if kind.Namespaced {
			where = namespace
		}
		if r.can(ctx, "list", kind, where, "") {
			found = append(found, kind)
			continue
		}
		lacking = append(lacking, userclient.Permission{Verb: "list", Resource: kind.Plural, Group: kind.Group, Namespace: where}.String())
	}
	if err := r.takeErr(); err != nil {
		return nil, err
	}
	if len(found) > 0 || len(lacking) == 0 {
		return found, nil
	}
	err = fmt.Errorf("you lack the right to %s", clean(strings.Join(lacking, ", or to ")))
	return nil, errorWithHint{err, "objects are shown to those who may list them; -n names a namespace where you may"}
}

// containsKind says whether an object is of one of some kinds.
func containsKind(kinds []model.Kind, of model.Kind) bool {
	return slices.ContainsFunc(kinds, func(k model.Kind) bool { return k.Group == of.Group && k.Kind == of.Kind })
}
