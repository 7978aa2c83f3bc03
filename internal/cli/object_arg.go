package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// kindHelp explains how to name a kind.
const kindHelp = `A kind is named as for kubectl: by its plural, singular, kind or short name, optionally
with ".GROUP" or ".VERSION.GROUP". A name that several groups serve needs the group:
unlike kubectl, Setpoint does not pick one.
`

// openObject opens the session of a command about one object.
func (f *readFlags) openObject(ctx context.Context, p *program, args []string) (*session, object.Ref, error) {
	r, err := f.open(ctx, p)
	if err != nil {
		return nil, object.Ref{}, err
	}
	kind, name, err := parseObject(args)
	if err != nil {
		return nil, object.Ref{}, err
	}
	ref, err := r.permissions.find(ctx, kind, name, r.target.Namespace)
	return r, ref, err
}

// objectArgs checks that the arguments name one object.
func objectArgs(_ *cobra.Command, args []string) error {
	if len(args) == 0 {
		return usageError{errors.New("no object given; use KIND/NAME")}
	}
	_, _, err := parseObject(args)
	return err
}

// parseObject splits KIND/NAME, or KIND NAME.
func parseObject(args []string) (kind, name string, err error) {
	parts := strings.Split(args[0], "/")
	if len(args) == 2 && len(parts) == 1 {
		parts = append(parts, strings.Split(args[1], "/")...) //nolint:gosec // There are two.
	} else if len(args) > 1 {
		parts = nil
	}
	if len(parts) != 2 || slices.Contains(parts, "") {
		return "", "", usageError{fmt.Errorf("%q is not KIND/NAME, such as pod/web", strings.Join(args, " "))}
	}
	return parts[0], parts[1], nil
}

// checkNames rejects arguments that are neither NAME nor KIND/NAME.
func checkNames(args []string) error {
	for _, arg := range args {
		if parts := strings.Split(arg, "/"); len(parts) > 2 || slices.Contains(parts, "") {
			return usageError{fmt.Errorf("%q is not NAME or KIND/NAME", arg)}
		}
	}
	return nil
}

// find resolves KIND/NAME to an object.
func (r *permissions) find(ctx context.Context, word, name, namespace string) (object.Ref, error) {
	kind, err := r.kind(ctx, word)
	if err != nil {
		return object.Ref{}, err
	}
	ref := object.Ref{Kind: kind, Name: name}
	if ref.Namespaced {
		ref.Namespace = namespace
	}
	return ref, nil
}

// read returns an object, or nil if it does not exist.
func (r *permissions) read(ctx context.Context, ref object.Ref) (*object.Object, error) {
	stored, err := r.api.Get(ctx, ref.Kind, ref.Namespace, ref.Name)
	switch {
	case errors.Is(err, failure.ErrNotFound):
		return nil, nil //nolint:nilnil // A missing object is a valid result.
	case apierrors.IsForbidden(err):
		return nil, errorWithHint{err, "you need permission to get an object to see or record its history"}
	case err != nil:
		return nil, err
	}
	return object.Parse(stored)
}

// nameOf returns an object for messages, such as "Pod shop/web".
func nameOf(ref object.Ref) string {
	name := ref.Name
	if ref.Namespace != "" {
		name = ref.Namespace + "/" + ref.Name
	}
	return clean(ref.Kind.Kind + " " + name)
}

// nameArg returns an object without its namespace, as kubectl's -o name prints it.
func nameArg(ref object.Ref) string {
	arg := strings.ToLower(ref.Kind.Kind)
	if ref.Group != "" {
		arg += "." + ref.Group
	}
	return arg + "/" + ref.Name
}

// argOf returns an object as arguments of a command.
func argOf(ref object.Ref) string {
	arg := nameArg(ref)
	if ref.Namespace != "" {
		arg += " -n " + ref.Namespace
	}
	return clean(arg)
}

// errNotManaged is returned for an object without a controller.
var errNotManaged = errors.New("not managed by a Setpoint controller")
