package client

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/setpoint-dev/setpoint/internal/cli/command"
	"github.com/setpoint-dev/setpoint/internal/cli/output"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// KindHelp explains how to name a kind.
const KindHelp = `A kind is named as for kubectl: by its plural, singular, kind or short name, optionally
with ".GROUP" or ".VERSION.GROUP". A name that several groups serve needs the group:
unlike kubectl, Setpoint does not pick one.
`

// ObjectArgs checks that the arguments name one object.
func ObjectArgs(_ *cobra.Command, args []string) error {
	if len(args) == 0 {
		return command.UsageErrorf("no object given; use KIND/NAME")
	}
	_, _, err := ParseObject(args)
	return err
}

// ParseObject splits KIND/NAME, or KIND NAME.
func ParseObject(args []string) (kind, name string, err error) {
	parts := strings.Split(args[0], "/")
	if len(args) == 2 && len(parts) == 1 {
		parts = append(parts, strings.Split(args[1], "/")...) //nolint:gosec // There are two.
	} else if len(args) > 1 {
		parts = nil
	}
	if len(parts) != 2 || slices.Contains(parts, "") {
		return "", "", command.UsageErrorf("%q is not KIND/NAME, such as pod/web", strings.Join(args, " "))
	}
	return parts[0], parts[1], nil
}

// CheckNames rejects arguments that are neither NAME nor KIND/NAME.
func CheckNames(args []string) error {
	for _, arg := range args {
		if parts := strings.Split(arg, "/"); len(parts) > 2 || slices.Contains(parts, "") {
			return command.UsageErrorf("%q is not NAME or KIND/NAME", arg)
		}
	}
	return nil
}

// Find resolves KIND/NAME to an object.
func (r *Client) Find(ctx context.Context, word, name, namespace string) (object.Ref, error) {
	kind, err := r.Kind(ctx, word)
	if err != nil {
		return object.Ref{}, err
	}
	ref := object.Ref{Kind: kind, Name: name}
	if ref.Namespaced {
		ref.Namespace = namespace
	}
	return ref, nil
}

// Read returns an object, or nil if it does not exist.
func (r *Client) Read(ctx context.Context, ref object.Ref) (*object.Object, error) {
	stored, err := r.API.Get(ctx, ref.Kind, ref.Namespace, ref.Name)
	switch {
	case errors.Is(err, failure.ErrNotFound):
		return nil, nil //nolint:nilnil // A missing object is a valid result.
	case apierrors.IsForbidden(err):
		return nil, command.WithHint(err, "you need permission to get an object to see or record its history")
	case err != nil:
		return nil, err
	}
	return object.Parse(stored)
}

// NameOf returns an object for messages, such as "Pod shop/web".
func NameOf(ref object.Ref) string { return output.Clean(ref.String()) }

// Arg returns an object without its namespace, as kubectl's -o name prints it.
func Arg(ref object.Ref) string {
	arg := strings.ToLower(ref.Kind.Kind)
	if ref.Group != "" {
		arg += "." + ref.Group
	}
	return arg + "/" + ref.Name
}

// CommandArg returns an object as arguments of a command.
func CommandArg(ref object.Ref) string {
	arg := Arg(ref)
	if ref.Namespace != "" {
		arg += " -n " + ref.Namespace
	}
	return output.Clean(arg)
}

// KindNames returns kinds as command-line arguments.
func KindNames(kinds []object.Kind) string {
	var names []string
	for _, k := range kinds {
		names = append(names, k.Resource())
	}
	return strings.Join(names, ",")
}
