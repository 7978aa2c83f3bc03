package cli

import (
	"cmp"
	"context"
	"errors"
	"log/slog"

	"github.com/setpoint-dev/setpoint/internal/manager"
	"github.com/setpoint-dev/setpoint/internal/manager/leader"
	"github.com/setpoint-dev/setpoint/internal/manager/rbac"
	"github.com/setpoint-dev/setpoint/internal/manager/serving"
	"github.com/setpoint-dev/setpoint/internal/operator"
)

// operatorManifests prints what an operator needs that runs with a ServiceAccount of its own:
// the rights of its controllers, and those of Setpoint's work for them.
func (r *rbacRun) operatorManifests(ctx context.Context, args []string) error {
	options, err := r.operatorOptions(args)
	if err != nil {
		return usageError{err}
	}
	cluster, err := r.cluster.find()
	if err != nil {
		return err
	}
	options.Config, options.Log = cluster.Config, slog.New(slog.DiscardHandler)
	op, err := operator.Describe(ctx, options)
	if err != nil {
		return err
	}
	o := r.programOptions(op)
	o.Config = cluster.Config
	if r.needs, err = manager.NewObjectPermissions(o, nil); err != nil {
		return err
	}
	all, err := op.Compile(ctx, r.needs.Environment())
	if err != nil {
		return err
	}
	text, err := manager.ProgramManifests(all, o, r.grant.Process.Name, func(rules []rbac.NamespaceRules) []rbac.NamespaceRules {
		return rbac.AddRules(rules, "", r.grant.Extra...)
	})
	if err != nil {
		return err
	}
	_, err = r.stdout.Write(append([]byte(operatorCaveat), text...))
	return err
}

// operatorCaveat is what the manifests may lack.
const operatorCaveat = "# What the files request by clients of their own is not included: add it with --extra-rules.\n"

// operatorOptions checks the flags.
func (r *rbacRun) operatorOptions(args []string) (o operator.Options, err error) {
	switch {
	case r.everything || r.showUsed || len(r.files) > 0:
		return o, errors.New("--python and --operator exclude -A, -f and --used")
	case r.formatSet && r.format.Value != asYAML:
		return o, errors.New("--python and --operator print YAML only")
	case r.operator.url != "" && len(args)+len(r.operator.python)+len(r.operator.modules) > 0:
		return o, errors.New("--operator excludes files and modules")
	}
	if o.URL = r.operator.url; o.URL != "" {
		return o, operator.CheckURL(o.URL)
	}
	r.operator.name = r.name
	source, err := r.operator.source(args)
	source.Kubeconfig = operator.Kubeconfig{File: r.cluster.kubeconfig, Context: r.cluster.context}
	source.Stderr = r.stderr
	o.Python = &source
	return o, err
}

// programOptions returns the options of `setpoint run` of the operator in a cluster.
func (r *rbacRun) programOptions(op *operator.Operator) manager.Options {
	if r.account == "" {
		r.grant.Process.Name, r.grant.Process.Namespace = op.Name(), "default"
	}
	return manager.Options{
		Name: cmp.Or(r.name, op.Name()), Namespace: r.grant.Process.Namespace, Namespaces: r.namespaces,
		LeaderElection: leader.Election{Enabled: true, Name: op.Name()},
		Admission:      serving.AdmissionOptions{}.WithClusterDefaults(true, op.Name()),
		InspectAddress: manager.Cluster{InCluster: true}.InspectAddress(manager.InspectAuto),
	}
}
