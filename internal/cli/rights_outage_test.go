package cli

import (
	"context"
	"errors"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/asuser"
	"github.com/setpoint-dev/setpoint/internal/inspect"
)

// away is an API server that does not answer.
type away struct{}

func (away) May(context.Context, string, inspect.Kind, string, string) (bool, error) {
	return false, asuser.ErrUnreachable
}

func (away) Kind(context.Context, string) (inspect.Kind, error) {
	return inspect.Kind{}, asuser.ErrUnreachable
}

// What is left out because nobody says what the user may see is not left out in silence.
func TestAnOutageIsNoLackOfRights(t *testing.T) {
	mine := &rights{asker: away{}}
	said := inspect.Controller{Kinds: []inspect.Kind{team().Kind}, Last: &inspect.Failure{Message: "no"}}
	if got, _ := mine.controllers(t.Context(), []inspect.Controller{said}); len(got) != 0 {
		t.Error("shown although nobody allows it")
	}
	if err := mine.sure(); !errors.Is(err, asuser.ErrUnreachable) {
		t.Errorf("sure: %v", err)
	}
	if err := mine.sure(); err != nil {
		t.Errorf("once it was said: %v", err)
	}
	if _, err := mine.listable(t.Context(), said.Kinds, "shop"); !errors.Is(err, asuser.ErrUnreachable) {
		t.Errorf("a list: %v", err)
	}
	mine.may(t.Context(), "get", inspect.Kind{Version: "v1", Kind: "Pod"}, "shop", "")
	if mine.sure() == nil {
		t.Error("a kind that nobody knows")
	}
}
