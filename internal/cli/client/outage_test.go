package client

import (
	"context"
	"errors"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/cli/clitest"
	"github.com/setpoint-dev/setpoint/internal/dashboard/userclient"
	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/must"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// unreachableReviewer is an API server that does not respond.
type unreachableReviewer struct{}

func (unreachableReviewer) CanI(context.Context, string, object.Kind, string, string) (bool, error) {
	return false, userclient.ErrUnreachable
}

// If an access review fails, the output says what it leaves out.
func TestOutageIsNotForbidden(t *testing.T) {
	perms := &Client{AccessReviewer: unreachableReviewer{}}
	said := inspect.Controller{Kinds: []object.Kind{clitest.Team().Kind}, Last: &inspect.Failure{Message: "no"}}
	if got, _ := perms.Controllers(t.Context(), []inspect.Controller{said}); len(got) != 0 {
		t.Error("shown without permission")
	}
	if err := perms.TakeErr(); !errors.Is(err, userclient.ErrUnreachable) {
		t.Errorf("sure: %v", err)
	}
	must.Succeed(t, perms.TakeErr()) // Once it was said.
	if _, err := perms.Listable(t.Context(), said.Kinds, "shop"); !errors.Is(err, userclient.ErrUnreachable) {
		t.Errorf("a list: %v", err)
	}
	perms.Can(t.Context(), "get", object.Kind{Version: "v1", Kind: "Pod"}, "shop", "")
	if perms.TakeErr() == nil {
		t.Error("an unknown kind")
	}
}
