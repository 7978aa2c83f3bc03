package rbac

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"

	setpoint "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/identity"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/request"
)

// Access compares what controllers need with what the API server allows.
type Access struct {
	Process  *Process
	Client   rest.Interface
	Accounts *identity.Reviewer
}

// Check refuses a controller that lacks permissions. Its object is of a kind, if it has
// one.
func (a *Access) Check(ctx context.Context, kind object.Resource, compiled *compile.Compiled) error {
	if err := a.Process.Check(ctx, a.Client, kind, compiled); err != nil || compiled.Account.PerNamespace() {
		return err
	}
	err := a.Accounts.CheckExists(ctx, compiled.Account.UserFor(""))
	if errors.Is(err, identity.ErrForbidden) {
		return &compile.Refusal{Reason: setpoint.ReasonForbidden, Err: err}
	}
	return err
}

// CheckNamespaces is Check for a controller object. Where the controller is limited to
// namespaces, it excludes those that do not exist or in which permissions are missing, and goes on
// in the others.
func (a *Access) CheckNamespaces(ctx context.Context, kind object.Resource, compiled *compile.Compiled) error {
	err := a.Check(ctx, kind, compiled)
	if compiled.Absent = AbsentNamespaces(ctx, a.Client, slices.Concat(compiled.Namespaces(), missingIn(err))); len(compiled.Absent) > 0 {
		compiled.Notes = append(compiled.Notes, strings.Join(compiled.Absent, ", ")+
			": no such namespace; the controller starts there when it exists and Setpoint has the permissions")
	}
	gone := slices.DeleteFunc(missingIn(err), func(name string) bool { return !slices.Contains(compiled.Absent, name) })
	switch {
	case len(gone) == 0:
	case compiled.Exclude(gone) == nil:
		// The message has Roles in these namespaces.
		return &compile.Refusal{Reason: setpoint.ReasonForbidden, Err: fmt.Errorf("%s: no such namespace; create it first; %w",
			strings.Join(gone, ", "), err)}
	default:
		err = a.Check(ctx, kind, compiled)
	}
	forbidden := missingIn(err)
	left := compiled.Exclude(forbidden)
	if len(forbidden) == 0 || left == nil {
		return err
	}
	compiled.Incomplete = &compile.Refusal{Reason: setpoint.ReasonForbidden, Err: fmt.Errorf(
		"the controller works in %s, but not in %s: %w", strings.Join(left, ", "), strings.Join(forbidden, ", "), err)}
	return nil
}

// missingIn returns the namespaces in which permissions are missing.
func missingIn(err error) []string {
	if missing, is := errors.AsType[*MissingError](err); is {
		return slices.Clone(missing.Namespaces)
	}
	return nil
}

// AbsentNamespaces returns those of the namespaces that do not exist, as far as Setpoint may know.
func AbsentNamespaces(ctx context.Context, client rest.Interface, names []string) []string {
	names = slices.Clone(names)
	slices.Sort(names)
	return slices.DeleteFunc(slices.Compact(names), func(name string) bool {
		err := client.Get().AbsPath(object.Namespaces.Path("", name)).SetHeader("Accept", request.Metadata).Do(ctx).Error()
		return !apierrors.IsNotFound(err)
	})
}
