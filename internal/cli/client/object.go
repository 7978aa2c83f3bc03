package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/setpoint-dev/setpoint/internal/cli/command"
	"github.com/setpoint-dev/setpoint/internal/cli/output"
	"github.com/setpoint-dev/setpoint/internal/dashboard/userclient"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/lists"
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
		parts = append(parts, strings.Split(args[1], "/")...)
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
	return object.Ref{Kind: kind, Namespace: kind.Within(namespace), Name: name}, nil
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
	names := lists.Map(kinds, object.Kind.Resource)
	return strings.Join(names, ",")
}

// Kind resolves a kind as kubectl does, by discovery. A word that several groups serve is
// rejected.
func (r *Client) Kind(ctx context.Context, word string) (object.Kind, error) {
	kind, err := r.API.FindKind(ctx, word)
	if _, several := errors.AsType[*userclient.AmbiguousError](err); several {
		return kind, command.UsageError(err)
	}
	if errors.Is(err, failure.ErrNotFound) {
		hint := "`kubectl api-resources` lists the kinds; a kind that is missing there needs its CustomResourceDefinition"
		if near := r.nearKind(ctx, word); near != "" {
			hint = "did you mean " + near + "? `kubectl api-resources` lists the kinds"
		}
		return kind, command.WithHint(&UnknownKindError{word}, hint)
	}
	return kind, err
}

// nearKind returns the kind whose name is most like a word that names none, as an argument has it; "" for none.
func (r *Client) nearKind(ctx context.Context, word string) string {
	kinds, err := r.API.Kinds(ctx)
	if err != nil {
		return ""
	}
	name, _, _ := strings.Cut(strings.ToLower(word), ".")
	// Names of kinds are compared as those of commands are.
	names := &cobra.Command{SuggestionsMinimumDistance: 2}
	resources := map[string]string{}
	for _, kind := range kinds {
		for _, each := range []string{kind.Plural, strings.ToLower(kind.Kind)} {
			names.AddCommand(&cobra.Command{Use: each, Run: func(*cobra.Command, []string) {}})
			resources[each] = kind.Resource()
		}
	}
	return resources[command.Likest(names, name)]
}

// UnknownKindError is a word that names no kind.
type UnknownKindError struct{ word string }

func (e *UnknownKindError) Error() string {
	return fmt.Sprintf("the API server serves no kind %q", e.word)
}

// Unwrap returns failure.ErrNotFound.
func (e *UnknownKindError) Unwrap() error { return failure.ErrNotFound }

// Annotate sets an annotation on an object, with the user's permissions.
func (r *Client) Annotate(ctx context.Context, ref object.Ref, key, value string) error {
	metadata := map[string]any{"annotations": map[string]string{key: value}}
	if ref.UID != "" {
		metadata["uid"] = ref.UID
	}
	patch, err := json.Marshal(map[string]any{"metadata": metadata})
	if err != nil {
		return fmt.Errorf("encode patch: %w", err)
	}
	if _, err := r.API.Patch(ctx, ref, types.MergePatchType, patch, userclient.WriteOptions{}); err != nil {
		return fmt.Errorf("annotate %s: %w", NameOf(ref), err)
	}
	return nil
}
