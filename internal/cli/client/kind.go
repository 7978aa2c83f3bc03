package client

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/setpoint-dev/setpoint/internal/cli/command"
	"github.com/setpoint-dev/setpoint/internal/dashboard/userclient"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// Kind resolves a kind as kubectl does, by discovery. A word that several groups serve is
// rejected.
func (r *Client) Kind(ctx context.Context, word string) (object.Kind, error) {
	kind, err := r.API.Kind(ctx, word)
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
