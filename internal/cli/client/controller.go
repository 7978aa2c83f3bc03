package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/setpoint-dev/setpoint/internal/cli/command"
	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// controllerKind returns the kind of controllers that kind is, if it is one.
func controllerKind(kind object.Kind) (compile.Kind, bool) {
	for _, each := range compile.Kinds() {
		if each.Resource.Group == kind.Group && each.Resource.Kind == kind.Kind {
			return each, true
		}
	}
	return compile.Kind{}, false
}

// ControllerArg resolves KIND/NAME of a controller. It returns false if the kind is not one
// of controllers.
func (r *Client) ControllerArg(ctx context.Context, arg string) (kind compile.Kind, name string, is bool, err error) {
	word, name, split := strings.Cut(arg, "/")
	if !split {
		return kind, arg, false, nil
	}
	if name == "" {
		return kind, name, false, command.UsageErrorf("%q has no name: use %sNAME", arg, arg)
	}
	meant, err := r.Kind(ctx, word)
	if err != nil {
		return kind, name, false, err
	}
	kind, is = controllerKind(meant)
	return kind, name, is, nil
}

// ReadController returns a stored controller; nil if there is none.
func (r *Client) ReadController(ctx context.Context, kind compile.Kind, name string) (*object.Object, error) {
	text, err := r.API.Get(ctx, object.KindOf(kind.Resource), "", name)
	switch {
	case errors.Is(err, failure.ErrNotFound):
		return nil, nil //nolint:nilnil // A missing controller is a valid result.
	case err != nil:
		return nil, err
	}
	return object.Parse(text)
}

// ControllerNamed returns the only stored controller of a name. Otherwise is what else the hint of a missing one offers.
func (r *Client) ControllerNamed(ctx context.Context, name, otherwise string) (*object.Object, error) {
	var found []*object.Object
	var names []string
	var unread error
	for _, kind := range compile.Kinds() {
		stored, err := r.ReadController(ctx, kind, name)
		if err != nil {
			unread = cmp.Or(unread, fmt.Errorf("read %s/%s: %w", kind.Name, name, err))
			continue
		}
		if stored != nil {
			found, names = append(found, stored), append(names, kind.Name+"/"+name)
		}
	}
	switch {
	case len(found) == 1:
		return found[0], nil
	case len(found) > 1:
		return nil, command.WithHint(fmt.Errorf("controller %q is ambiguous", name), "use one of "+strings.Join(names, ", "))
	case unread != nil:
		return nil, unread
	}
	return nil, command.WithHint(fmt.Errorf("no controller %q", name),
		"use one of the cluster, such as compositecontroller.setpoint.dev/NAME"+otherwise)
}

// StoredController returns the controller that an argument names. What is wrong with another argument is said by isNot.
func (r *Client) StoredController(ctx context.Context, arg, isNot string) (*object.Object, error) {
	kind, name, is, err := r.ControllerArg(ctx, arg)
	switch {
	case err != nil:
		return nil, err
	case is:
		stored, err := r.ReadController(ctx, kind, name)
		if err == nil && stored == nil {
			err = fmt.Errorf("%s/%s %w", kind.Name, name, failure.ErrNotFound)
		}
		return stored, err
	case strings.Contains(arg, "/"):
		return nil, command.UsageErrorf("%q is %s such as compositecontroller.setpoint.dev/NAME", arg, isNot)
	}
	return r.ControllerNamed(ctx, arg, "")
}
