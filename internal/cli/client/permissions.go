package client

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/setpoint-dev/setpoint/internal/cli/command"
	"github.com/setpoint-dev/setpoint/internal/dashboard/userclient"
	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/manager"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// AccessReviewer checks permissions; userclient.Client implements it.
type AccessReviewer interface {
	CanI(ctx context.Context, verb string, kind object.Kind, namespace, name string) (bool, error)
}

// Client reads a cluster as the user of a command. A process returns everything it knows to every
// authorized client; the commands hide what the user may not read.
type Client struct {
	AccessReviewer
	// API reads with the user's credentials.
	API *userclient.Client
	// Cluster is the cluster, with the namespace of objects.
	Cluster manager.Cluster

	mu sync.Mutex
	// reviewErr is the error of a failed access review.
	reviewErr error
}

// New returns a client with the credentials of the kubeconfig.
func New(of manager.Cluster) (*Client, error) {
	config := *of.Config
	config.UserAgent = of.UserAgent
	api, err := userclient.NewCluster(&config)
	if err != nil {
		return nil, err
	}
	user, err := api.Client(userclient.User{OwnCredentials: true})
	return &Client{AccessReviewer: user, API: user, Cluster: of}, err
}

// Separate returns the permissions of the same user with an outage of their own, for concurrent use.
func (r *Client) Separate() *Client {
	return &Client{AccessReviewer: r.AccessReviewer, API: r.API}
}

// Can reports whether the user has a permission. It returns false for unknown kinds and
// after a failed review, which TakeErr returns.
func (r *Client) Can(ctx context.Context, verb string, kind object.Kind, namespace, name string) bool {
	if r.failed() {
		return false // Do not wait for another timeout.
	}
	allowed, err := r.CanI(ctx, verb, kind, namespace, name)
	r.noteErr(err)
	return allowed
}

// noteErr records that the API server is unreachable. Other errors mean no.
func (r *Client) noteErr(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.reviewErr == nil && errors.Is(err, userclient.ErrUnreachable) {
		r.reviewErr = fmt.Errorf("check your permissions: %w", err)
	}
}

func (r *Client) failed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.reviewErr != nil
}

// TakeErr returns and clears the error of reviews that failed since the last call: results
// since then are incomplete.
func (r *Client) TakeErr() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	doubt := r.reviewErr
	r.reviewErr = nil
	return doubt
}

// Redact removes what the user may not read from a run.
func (r *Client) Redact(ctx context.Context, run inspect.Run) inspect.Run {
	return inspect.Redact(run, r.CanRead(ctx))
}

// CanRead returns a function that checks permission to get objects of a kind in a
// namespace.
func (r *Client) CanRead(ctx context.Context) func(object.Kind, string) bool {
	return func(kind object.Kind, namespace string) bool { return r.Can(ctx, "get", kind, namespace, "") }
}

// AccessCheck returns the permission check for package inspect.
func (r *Client) AccessCheck(ctx context.Context) inspect.AccessCheck {
	return func(verb string, kind object.Kind, namespace, name string) bool {
		return r.Can(ctx, verb, kind, namespace, name)
	}
}

// State removes errors and children that the user may not read, and counts the children.
func (r *Client) State(ctx context.Context, state inspect.ObjectState) VisibleState {
	state = inspect.RedactState(state, r.CanRead(ctx))
	all := len(state.ChildStates)
	state.ChildStates = slices.DeleteFunc(slices.Clone(state.ChildStates), func(c inspect.Child) bool {
		return !r.Can(ctx, "get", c.Kind, c.Namespace, "")
	})
	return VisibleState{ObjectState: state, Hidden: all - len(state.ChildStates)}
}

// States applies state to a list.
func (r *Client) States(ctx context.Context, all []inspect.ObjectState) []VisibleState {
	return lists.Map(all, func(state inspect.ObjectState) VisibleState { return r.State(ctx, state) })
}

// VisibleState is an object's state, limited to what the user may read.
type VisibleState struct {
	inspect.ObjectState
	// Hidden is the number of children left out of ChildStates.
	Hidden int `json:"hidden,omitempty"`
	// Standby reports that another process is the leader.
	Standby bool `json:"standby,omitempty"`
}

// HiddenCount returns the note about hidden children.
func HiddenCount(n int) string { return fmt.Sprintf("and %d that you cannot get", n) }

// Controllers returns the visible controllers, redacted, and the number of hidden ones.
func (r *Client) Controllers(ctx context.Context, all []inspect.Controller) (seen []inspect.Controller, hidden int) {
	seen = []inspect.Controller{}
	for i := range all {
		if inspect.CanView(&all[i], r.AccessCheck(ctx)) {
			seen = append(seen, inspect.RedactController(all[i], r.AccessCheck(ctx)))
		}
	}
	return seen, len(all) - len(seen)
}

// CanSeeAny reports whether the user may list one of the kinds in a namespace or, if name
// is not "", get the object of that name.
func (r *Client) CanSeeAny(ctx context.Context, kinds []object.Kind, namespace, name string) bool {
	return slices.ContainsFunc(kinds, func(k object.Kind) bool {
		where := k.Within(namespace)
		return r.Can(ctx, "list", k, where, "") || name != "" && r.Can(ctx, "get", k, where, name)
	})
}

// Listable returns the kinds that the user may list in a namespace, or in all if it is "".
// It is an error if there are none.
func (r *Client) Listable(ctx context.Context, kinds []object.Kind, namespace string) (found []object.Kind, err error) {
	var missing []error
	for _, kind := range kinds {
		where := kind.Within(namespace)
		if r.Can(ctx, "list", kind, where, "") {
			found = append(found, kind)
			continue
		}
		missing = append(missing, userclient.Permission{Verb: "list", Resource: kind.Plural, Group: kind.Group,
			Namespace: where}.Forbidden(""))
	}
	if err := r.TakeErr(); err != nil {
		return nil, err
	}
	if len(found) > 0 || len(missing) == 0 {
		return found, nil
	}
	return nil, command.WithHint(errors.Join(missing...), "-n selects a namespace in which you can list objects")
}

// ContainsKind reports whether kinds contains the kind.
func ContainsKind(kinds []object.Kind, of object.Kind) bool {
	return slices.ContainsFunc(kinds, func(k object.Kind) bool { return k.Group == of.Group && k.Kind == of.Kind })
}
