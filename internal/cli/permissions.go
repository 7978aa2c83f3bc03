package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/setpoint-dev/setpoint/internal/dashboard/userclient"
	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/manager"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// accessReviewer checks permissions; userclient.Client implements it.
type accessReviewer interface {
	CanI(ctx context.Context, verb string, kind object.Kind, namespace, name string) (bool, error)
}

// permissions are those of the user. A process returns everything it knows to every
// authorized client; the commands hide what the user may not read.
type permissions struct {
	accessReviewer
	// api reads with the user's credentials.
	api *userclient.Client

	mu sync.Mutex
	// reviewErr is the error of a failed access review.
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

// separate returns the permissions of the same user with an outage of their own, for concurrent use.
func (r *permissions) separate() *permissions {
	return &permissions{accessReviewer: r.accessReviewer, api: r.api}
}

// can reports whether the user has a permission. It returns false for unknown kinds and
// after a failed review, which takeErr returns.
func (r *permissions) can(ctx context.Context, verb string, kind object.Kind, namespace, name string) bool {
	if r.failed() {
		return false // Do not wait for another timeout.
	}
	allowed, err := r.CanI(ctx, verb, kind, namespace, name)
	r.noteErr(err)
	return allowed
}

// noteErr records that the API server is unreachable. Other errors mean no.
func (r *permissions) noteErr(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.reviewErr == nil && errors.Is(err, userclient.ErrUnreachable) {
		r.reviewErr = fmt.Errorf("check your permissions: %w", err)
	}
}

func (r *permissions) failed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.reviewErr != nil
}

// takeErr returns and clears the error of reviews that failed since the last call: results
// since then are incomplete.
func (r *permissions) takeErr() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	doubt := r.reviewErr
	r.reviewErr = nil
	return doubt
}

// redact removes what the user may not read from a run.
func (r *permissions) redact(ctx context.Context, run inspect.Run) inspect.Run {
	return inspect.Redact(run, r.canRead(ctx))
}

// canRead returns a function that checks permission to get objects of a kind in a
// namespace.
func (r *permissions) canRead(ctx context.Context) func(object.Kind, string) bool {
	return func(kind object.Kind, namespace string) bool { return r.can(ctx, "get", kind, namespace, "") }
}

// accessCheck returns the permission check for package inspect.
func (r *permissions) accessCheck(ctx context.Context) inspect.AccessCheck {
	return func(verb string, kind object.Kind, namespace, name string) bool {
		return r.can(ctx, verb, kind, namespace, name)
	}
}

// state removes errors and children that the user may not read, and counts the children.
func (r *permissions) state(ctx context.Context, state inspect.ObjectState) visibleState {
	state = inspect.RedactState(state, r.canRead(ctx))
	all := len(state.ChildStates)
	state.ChildStates = slices.DeleteFunc(slices.Clone(state.ChildStates), func(c inspect.Child) bool {
		return !r.can(ctx, "get", c.Kind, c.Namespace, "")
	})
	return visibleState{ObjectState: state, Hidden: all - len(state.ChildStates)}
}

// states applies state to a list.
func (r *permissions) states(ctx context.Context, all []inspect.ObjectState) []visibleState {
	found := []visibleState{}
	for _, state := range all {
		found = append(found, r.state(ctx, state))
	}
	return found
}

// visibleState is an object's state, limited to what the user may read.
type visibleState struct {
	inspect.ObjectState
	// Hidden is the number of children left out of ChildStates.
	Hidden int `json:"hidden,omitempty"`
	// Standby reports that another process is the leader.
	Standby bool `json:"standby,omitempty"`
}

// hiddenCount returns the note about hidden children.
func hiddenCount(n int) string { return fmt.Sprintf("and %d that you cannot get", n) }

// controllers returns the visible controllers, redacted, and the number of hidden ones.
func (r *permissions) controllers(ctx context.Context, all []inspect.Controller) (seen []inspect.Controller, hidden int) {
	seen = []inspect.Controller{}
	for i := range all {
		if inspect.CanView(&all[i], r.accessCheck(ctx)) {
			seen = append(seen, inspect.RedactController(all[i], r.accessCheck(ctx)))
		}
	}
	return seen, len(all) - len(seen)
}

// canSeeAny reports whether the user may list one of the kinds in a namespace or, if name
// is not "", get the object of that name.
func (r *permissions) canSeeAny(ctx context.Context, kinds []object.Kind, namespace, name string) bool {
	return slices.ContainsFunc(kinds, func(k object.Kind) bool {
		where := ""
		if k.Namespaced {
			where = namespace
		}
		return r.can(ctx, "list", k, where, "") || name != "" && r.can(ctx, "get", k, where, name)
	})
}

// listable returns the kinds that the user may list in a namespace, or in all if it is "".
// It is an error if there are none.
func (r *permissions) listable(ctx context.Context, kinds []object.Kind, namespace string) (found []object.Kind, err error) {
	var missing []error
	for _, kind := range kinds {
		where := ""
		if kind.Namespaced {
			where = namespace
		}
		if r.can(ctx, "list", kind, where, "") {
			found = append(found, kind)
			continue
		}
		missing = append(missing, userclient.Permission{Verb: "list", Resource: kind.Plural, Group: kind.Group,
			Namespace: where}.Forbidden(""))
	}
	if err := r.takeErr(); err != nil {
		return nil, err
	}
	if len(found) > 0 || len(missing) == 0 {
		return found, nil
	}
	return nil, errorWithHint{errors.Join(missing...), "-n selects a namespace in which you can list objects"}
}

// containsKind reports whether kinds contains the kind.
func containsKind(kinds []object.Kind, of object.Kind) bool {
	return slices.ContainsFunc(kinds, func(k object.Kind) bool { return k.Group == of.Group && k.Kind == of.Kind })
}
