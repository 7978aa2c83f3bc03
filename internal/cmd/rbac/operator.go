package rbac

import (
	"cmp"
	"context"
	"errors"
	"strings"

	"github.com/setpoint-dev/setpoint/internal/cli/command"
	"github.com/setpoint-dev/setpoint/internal/cli/output"
	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/expression"
	"github.com/setpoint-dev/setpoint/internal/manager"
	"github.com/setpoint-dev/setpoint/internal/manager/leader"
	"github.com/setpoint-dev/setpoint/internal/manager/rbac"
	"github.com/setpoint-dev/setpoint/internal/manager/serving"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/operator"
	"github.com/setpoint-dev/setpoint/internal/workspace"
)

// operatorManifests prints what an operator needs that runs with a ServiceAccount of its own:
// the rights of its controllers, and those of Setpoint's work for them.
func (r *rbacRun) operatorManifests(ctx context.Context, args []string) error {
	if err := r.checkOperator(args); err != nil {
		return command.UsageError(err)
	}
	cluster, err := r.cluster.Find()
	if err != nil {
		return err
	}
	r.operator.Name = r.name
	op, err := r.operator.Describe(ctx, cluster, r.cluster, args, r.Stderr)
	if err != nil {
		return err
	}
	defer op.Close()
	o := r.programOptions(op)
	o.Config = cluster.Config
	if r.needs, err = manager.NewObjectPermissions(o, nil); err != nil {
		return err
	}
	env := r.needs.Environment()
	kinds := &workspace.Kinds{}
	env.Resolve = orAssume(env.Resolve, kinds)
	all, err := op.Compile(ctx, env)
	if err != nil {
		return err
	}
	for _, c := range all {
		c.Close()
	}
	text, err := manager.ProgramManifests(all, o, r.grant.Process.Name, func(rules []rbac.NamespaceRules) []rbac.NamespaceRules {
		return rules
	})
	if err != nil {
		return err
	}
	caveats := operatorCaveat
	if assumed := kinds.Assumed(); len(assumed) > 0 {
		caveats += "# Not served yet, and assumed to be namespaced: " + strings.Join(assumed, ", ") + ".\n"
	}
	_, err = r.Stdout.Write(append([]byte(caveats), text...))
	return err
}

type resolve = func(ctx context.Context, apiVersion, plural string) (object.Resource, error)

// orAssume also resolves kinds that are not served yet, as an operator may create its CRDs when it starts.
func orAssume(served resolve, kinds *workspace.Kinds) resolve {
	return func(ctx context.Context, apiVersion, plural string) (object.Resource, error) {
		resource, err := served(ctx, apiVersion, plural)
		if errors.Is(err, compile.ErrNotServed) {
			return kinds.Resolve(ctx, apiVersion, plural)
		}
		return resource, err
	}
}

// operatorCaveat is what the manifests may lack.
const operatorCaveat = "# What the files request by clients of their own is not included: add it in a Role of your own.\n"

// checkOperator checks the flags.
func (r *rbacRun) checkOperator(args []string) error {
	switch {
	case r.everything || len(r.files) > 0:
		return errors.New("--python and --operator exclude -A and -f")
	case r.format.Value != output.AsYAML:
		return errors.New("--python and --operator print YAML only")
	}
	return r.operator.CheckDescribed(args)
}

// programOptions returns the options of `setpoint run` of the operator in a cluster.
func (r *rbacRun) programOptions(op *operator.Operator) manager.Options {
	if r.account == "" {
		r.grant.Process.Name, r.grant.Process.Namespace = op.Name, "default"
	}
	return manager.Options{
		Settings:       compile.Settings{Expressions: expression.Compile, Namespace: r.grant.Process.Namespace, Namespaces: r.namespaces},
		Name:           cmp.Or(r.name, op.Name),
		LeaderElection: leader.Election{Enabled: true, Name: op.Name},
		Admission:      serving.AdmissionOptions{}.WithClusterDefaults(true, op.Name),
		InspectAddress: manager.Cluster{InCluster: true}.InspectAddress(manager.InspectAuto),
	}
}
