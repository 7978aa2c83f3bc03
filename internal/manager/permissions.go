package manager

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/setpoint-dev/setpoint/internal/admission/certs"
	"github.com/setpoint-dev/setpoint/internal/apply"
	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/inspect/locate/token"
	"github.com/setpoint-dev/setpoint/internal/manager/crds"
	"github.com/setpoint-dev/setpoint/internal/manager/kinds"
	"github.com/setpoint-dev/setpoint/internal/manager/rbac"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// RunPermissions returns the permissions that `setpoint run` needs for its own work, whatever its controllers are.
func RunPermissions(o Options) rbac.Permissions {
	o.LeaderElection.Enabled = true
	o = o.withDefaults()
	return o.permissionsProcess().ForRun()
}

// emptySecrets returns the Secrets to create before a Manager with these options, which have their defaults, runs these
// controllers. It fills them: the right to create Secrets could not be limited to their names.
func emptySecrets(all []*compile.Compiled, o Options) []*corev1.Secret {
	var secrets []*corev1.Secret
	if inspect := o.inspectEndpoint(); inspect.Secret().Name != "" {
		secrets = append(secrets, token.NewSecret(o.Namespace))
	}
	reviews := slices.ContainsFunc(all, func(c *compile.Compiled) bool { return c.Admission != nil })
	if reach := o.reach(); reviews && reach.CertificateSecret().Name != "" && !reach.ProvidesCertificates() {
		secrets = append(secrets, certs.NewSecret(reach.CertificateSecret()))
	}
	return secrets
}

// ObjectPermissions knows which permissions controller objects need, stored or not.
type ObjectPermissions struct {
	options  Options
	client   rest.Interface
	resolver *kinds.Resolver
}

// NewObjectPermissions returns the permissions for a process with these options. The
// definitions are CRDs that need not be stored.
func NewObjectPermissions(o Options, definitions []*object.Object) (*ObjectPermissions, error) {
	o = o.withDefaults()
	client, err := newClient(o)
	if err != nil {
		return nil, fmt.Errorf("create a client for the cluster: %w", err)
	}
	defined, err := definedResources(definitions)
	if err != nil {
		return nil, err
	}
	return &ObjectPermissions{o, client, &kinds.Resolver{Client: client, Defined: defined}}, nil
}

// Assume resolves kinds without the cluster.
func (p *ObjectPermissions) Assume(find func(ctx context.Context, apiVersion, plural string) (object.Resource, error)) {
	p.resolver.Assume = find
}

// Of returns what a controller object needs, and whether a customize hook selects kinds at run
// time. Related are the kinds that it is known to select.
func (p *ObjectPermissions) Of(ctx context.Context, declared *object.Object, related []object.Resource) (needs rbac.Controller,
	customizes bool, err error) {
	kind, known := compile.KindOf(declared)
	if !known {
		return needs, false, fmt.Errorf("%s of %s is no controller kind", declared.Kind(), declared.APIVersion())
	}
	o := p.options
	compiled, err := kind.Compile(ctx, declared, p.Environment())
	if err != nil {
		return needs, false, fmt.Errorf("%s/%s: %w", kind.Name, declared.Name(), err)
	}
	defer compiled.Release()
	compiled.Programs = slices.Clone(compiled.Programs)
	for i := range compiled.Programs {
		if one := &compiled.Programs[i]; one.Customizes() {
			one.Reads, customizes = slices.Concat(one.Reads, related), true
		}
	}
	return o.permissionsProcess().Controller(kind.Resource, compiled), customizes, nil
}

// Environment returns what controllers are compiled with. They are never run.
func (p *ObjectPermissions) Environment() compile.Environment {
	o, reach := p.options, p.options.reach()
	return compile.Environment{
		Settings: compile.Settings{Workers: o.Workers, Namespace: o.Namespace, Namespaces: o.Namespaces,
			DefaultAccount: o.DefaultAccount, Expressions: o.Expressions},
		Resolve: p.resolver.Resolve, ResolveKind: p.resolver.ResolveKind, PodNamespace: reach.PodNamespace(),
	}
}

// AbsentNamespaces returns the namespaces of controllers that do not exist, as far as the user may know.
func (p *ObjectPermissions) AbsentNamespaces(ctx context.Context, all []rbac.Controller) []string {
	var names []string
	for _, c := range all {
		for _, rules := range c.Permissions.RulesByNamespace() {
			if rules.Namespace != "" {
				names = append(names, rules.Namespace)
			}
		}
	}
	return rbac.AbsentNamespaces(ctx, p.client, names)
}

// Stored returns the controller objects of the cluster, by kind and name. Kinds that are not installed have none.
func (p *ObjectPermissions) Stored(ctx context.Context) ([]*object.Object, error) {
	var all []*object.Object
	writer := apply.New(p.client, apply.Options{DryRun: true})
	for _, kind := range compile.Kinds() {
		some, err := writer.List(ctx, kind.Resource, "", "")
		if err != nil && !apply.NotFound(err) {
			return nil, fmt.Errorf("list %s: %w", kind.Resource, err)
		}
		all = append(all, some...)
	}
	return all, nil
}

// ServesConstrainedImpersonation reports whether the API server is new enough for it.
func (p *ObjectPermissions) ServesConstrainedImpersonation(ctx context.Context) (bool, error) {
	return rbac.ServesConstrainedImpersonation(ctx, p.client)
}

// ProgramManifests returns what a program with these controllers needs in the namespace of the options, as YAML: a
// ServiceAccount, the Secrets that the program fills, roles and bindings. Adjust may add rules.
func ProgramManifests(all []*compile.Compiled, o Options, serviceAccount string,
	adjust func([]rbac.NamespaceRules) []rbac.NamespaceRules) ([]byte, error) {
	complete := o.withDefaults()
	process := complete.permissionsProcess()
	var err error
	if process.CRDs, err = crds.Parse(o.CRDs, o.AllowBreakingCRDs); err != nil {
		return nil, err
	}
	objects := []any{&corev1.ServiceAccount{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ServiceAccount"},
		ObjectMeta: metav1.ObjectMeta{Name: serviceAccount, Namespace: o.Namespace},
	}}
	for _, secret := range emptySecrets(all, complete) {
		objects = append(objects, secret)
	}
	var documents [][]byte
	for _, object := range objects {
		document, err := yaml.Marshal(object)
		if err != nil {
			return nil, err
		}
		documents = append(documents, document)
	}
	subject := rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Name: serviceAccount, Namespace: o.Namespace}
	roles, err := rbac.YAML(rbac.Roles(o.Name, subject, adjust(process.Required(all).RulesByNamespace())))
	if len(roles) > 0 {
		documents = append(documents, roles)
	}
	return bytes.Join(documents, []byte("---\n")), err
}
