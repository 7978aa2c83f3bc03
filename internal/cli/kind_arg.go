package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/dashboard/userclient"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// kind resolves a kind as kubectl does, by discovery. A word that several groups serve is
// rejected.
func (r *permissions) kind(ctx context.Context, word string) (object.Kind, error) {
	kind, err := r.api.Kind(ctx, word)
	if _, several := errors.AsType[*userclient.AmbiguousError](err); several {
		return kind, usageError{err}
	}
	if errors.Is(err, failure.ErrNotFound) {
		hint := "`kubectl api-resources` lists the kinds; a kind that is missing there needs its CustomResourceDefinition"
		if near := r.nearKind(ctx, word); near != "" {
			hint = "did you mean " + near + "? `kubectl api-resources` lists the kinds"
		}
		return kind, errorWithHint{&unknownKindError{word}, hint}
	}
	return kind, err
}

// nearKind returns the kind whose name is most like a word that names none, as an argument has it; "" for none.
func (r *permissions) nearKind(ctx context.Context, word string) string {
	kinds, err := r.api.Kinds(ctx)
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
	return resources[likest(names, name)]
}

// unknownKindError is a word that names no kind.
type unknownKindError struct{ word string }

func (e *unknownKindError) Error() string {
	return fmt.Sprintf("the API server serves no kind %q", e.word)
}

// Unwrap returns failure.ErrNotFound.
func (e *unknownKindError) Unwrap() error { return failure.ErrNotFound }

// controllerKind returns the kind of controllers that kind is, if it is one.
func controllerKind(kind object.Kind) (compile.Kind, bool) {
	for _, each := range compile.Kinds() {
		if each.Resource.Group == kind.Group && each.Resource.Kind == kind.Kind {
			return each, true
		}
	}
	return compile.Kind{}, false
}

// controllerArg resolves KIND/NAME of a controller. It returns false if the kind is not one
// of controllers.
func (r *permissions) controllerArg(ctx context.Context, arg string) (kind compile.Kind, name string, is bool, err error) {
	word, name, split := strings.Cut(arg, "/")
	if !split {
		return kind, arg, false, nil
	}
	if name == "" {
		return kind, name, false, usageError{fmt.Errorf("%q has no name: use %sNAME", arg, arg)}
	}
	meant, err := r.kind(ctx, word)
	if err != nil {
		return kind, name, false, err
	}
	kind, is = controllerKind(meant)
	return kind, name, is, nil
}
