package processes

import (
	"context"

	"github.com/setpoint-dev/setpoint/internal/cli/client"
	"github.com/setpoint-dev/setpoint/internal/cli/command"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// OpenObject opens the session of a command about one object.
func (f *ReadFlags) OpenObject(ctx context.Context, p *command.Invocation, args []string) (*Session, object.Ref, error) {
	r, err := f.Open(ctx, p)
	if err != nil {
		return nil, object.Ref{}, err
	}
	kind, name, err := client.ParseObject(args)
	if err != nil {
		return nil, object.Ref{}, err
	}
	ref, err := r.Client.Find(ctx, kind, name, r.Target.Namespace)
	return r, ref, err
}
