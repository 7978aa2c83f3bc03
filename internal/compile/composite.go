package compile

import (
	"context"
	"fmt"
	"slices"

	"github.com/setpoint-dev/setpoint/internal/controller/composite"
	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// compileHooks compiles a CompositeController or a DecoratorController.
func (k Kind) compileHooks(ctx context.Context, o *object.Object, env Environment) (*Compiled, error) {
	d, err := k.neutral(o, env)
	if err != nil {
		return nil, err
	}
	draft := k.draft(o, d, env)
	programs, err := d.resolve(ctx, env, draft)
	if err != nil {
		return nil, err
	}
	for i := range programs {
		if err := checkAccount(draft.Account, programs[i].Parent); err != nil {
			return nil, err
		}
	}
	if err := d.setConditions(ctx, env, programs); err != nil {
		return nil, err
	}
	c := &connection{name: draft.Name, object: k.Resource.Ref("", o.Name()), account: draft.Account, form: k.form(),
		childless: len(d.children) == 0, env: env}
	logic, err := c.connect(ctx, &d.hooks)
	if err != nil {
		return nil, err
	}
	rollout, former, err := k.compileRollout(ctx, o, d, c)
	if err != nil {
		c.close()
		return nil, err
	}
	for i := range programs {
		setLogic(&programs[i], logic, &d.hooks, rollout, former)
	}
	all := d.hooks.all()
	compiled := c.compiled(o, all, d.suspended)
	compiled.Programs = lists.FlatMap(programs, func(p composite.Program) []composite.Program { return PerNamespace(p, p.Namespaces) })
	compiled.Rollout, compiled.Unserved = rollout, d.unserved
	compiled.StatusWarning = k.statusWarning(programs)
	compiled.Notes = slices.Concat(d.notes, compiled.Notes, all.bareNameNotes(programs[0].Children))
	if former != nil {
		all = append(all, former.hooks.all()...)
		compiled.HookAddresses, compiled.Credentials = all.addresses(), all.credentials()
	}
	if compiled.StatusWarning != "" {
		compiled.Notes = append(compiled.Notes, compiled.StatusWarning)
	}
	return compiled, nil
}

// neutral reads the spec of a controller with hooks.
func (k Kind) neutral(o *object.Object, env Environment) (*neutralSpec, error) {
	if k.Metacontroller() {
		return readMetacontroller(k, o, env)
	}
	return readSetpoint(k, o, env)
}

// statusWarning names the first kind of parents without a status subresource. Metacontroller uses the same words.
func (k Kind) statusWarning(programs []composite.Program) string {
	i := slices.IndexFunc(programs, func(p composite.Program) bool { return !p.Parent.Status })
	if i < 0 || k.isDecorator() {
		return ""
	}
	return fmt.Sprintf("%s does not have subresource 'Status' enabled: the status in responses is not stored", programs[i].Parent)
}
