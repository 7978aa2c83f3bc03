package compile

import (
	"cmp"
	"context"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"

	api "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/internal/controller/compose"
	"github.com/setpoint-dev/setpoint/internal/controller/handle"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// compileHandlers compiles a HandlerController.
func (k Kind) compileHandlers(ctx context.Context, o *object.Object, env Environment) (*Compiled, error) {
	var controller api.HandlerController
	if err := readSpec(o, &controller); err != nil {
		return nil, err
	}
	spec := &controller.Spec
	handlers, configs, err := readHandlers(spec)
	if err != nil {
		return nil, err
	}
	snapshot, err := o.With(nil, "status")
	if err != nil {
		return nil, err
	}
	p := handle.Program{
		Name:              k.Name + "/" + o.Name(),
		Object:            snapshot.JSON(),
		HandledAnnotation: recordAnnotation(o.Name()),
		Finalizer:         k.finalizer(o.Name()),
		Manager:           k.manager(o.Name(), env),
		Workers:           env.Workers,
		Namespace:         env.Namespace,
		Account:           env.AccountOf(spec.Identity),
	}
	if err := resolveHandled(ctx, env, spec, &p); err != nil {
		return nil, err
	}
	if err := checkAccount(p.Account, p.Resource); err != nil {
		return nil, err
	}
	if err := setStatusFields(ctx, env, o.Name(), &p); err != nil {
		return nil, err
	}
	if err := checkPreviousState(handlers, p.Resource); err != nil {
		return nil, err
	}
	c := &connection{name: p.Name, account: p.Account, env: env}
	opened, err := c.openAll(configs)
	if err != nil {
		return nil, err
	}
	for i := range handlers {
		handlers[i].Do = opened[i]
	}
	p.Handlers = handlers
	return &Compiled{
		Handlers:      []handle.Program{p},
		HookAddresses: configs.addresses(),
		Credentials:   configs.credentials(),
		Account:       p.Account,
		Suspended:     spec.Suspend || isPaused(o),
		Notes:         env.handlerNotes(spec),
		Release:       c.release,
	}, nil
}

// resolveHandled finds the kinds that a controller handles and writes, and parses its selectors.
func resolveHandled(ctx context.Context, env Environment, spec *api.HandlerControllerSpec, p *handle.Program) error {
	const field = "spec.resource"
	handled := spec.Resource
	resource, err := resolveResource(ctx, env, resourceRef{field, handled.APIVersion, handled.Resource})
	if err != nil {
		return err
	}
	p.Resource = resource
	if p.Namespaces, err = env.limit(field+".namespaces", handled.Namespaces, resource); err != nil {
		return err
	}
	if p.Labels, err = labelSelectorText(field, handled.LabelSelector); err != nil {
		return err
	}
	if p.Fields, err = fieldSelectorText(field, handled.FieldSelector); err != nil {
		return err
	}
	if p.Matches, err = annotationMatcher(field, handled.AnnotationSelector); err != nil {
		return err
	}
	if err := resolveOwned(ctx, env, spec.Owns, p); err != nil {
		return err
	}
	for i, permission := range spec.Permissions {
		write, err := resolveWrite(ctx, env, index("spec.permissions", i), permission)
		if err != nil {
			return err
		}
		p.Writes = append(p.Writes, write)
	}
	return nil
}

// setStatusFields sets which status fields a program may use.
func setStatusFields(ctx context.Context, env Environment, name string, p *handle.Program) error {
	if env.StatusOf == nil {
		return nil
	}
	status, err := env.StatusOf(ctx, p.Resource)
	if err != nil {
		return err
	}
	p.Conditions = status.Conditions
	if status.Records {
		p.HandledStatusKey = handlerSignature(name)
	}
	return nil
}

// resolveOwned finds the kinds that handlers create for their objects.
func resolveOwned(ctx context.Context, env Environment, owns []api.ResourceRule, p *handle.Program) error {
	for i, rule := range owns {
		field := index("spec.owns", i)
		resource, err := resolveResource(ctx, env, resourceRef{field, rule.APIVersion, rule.Resource})
		if err != nil {
			return err
		}
		if p.Resource.Namespaced && !resource.Namespaced {
			return invalid("%s: %s are cluster-scoped and cannot belong to the namespaced %s; list them in permissions, and return them as unowned", field, resource, p.Resource)
		}
		for _, other := range p.Owns {
			if other.GroupKind() == resource.GroupKind() {
				return invalid("%s: the kind %s is listed before", field, resource.Kind)
			}
		}
		p.Owns = append(p.Owns, resource)
	}
	return nil
}

func resolveWrite(ctx context.Context, env Environment, field string, permission api.Permission) (handle.WritePermission, error) {
	resource, err := resolveResource(ctx, env, resourceRef{field, permission.APIVersion, permission.Resource})
	if err != nil {
		return handle.WritePermission{}, err
	}
	if permission.Namespace != "" && !resource.Namespaced {
		return handle.WritePermission{}, invalid("%s.namespace: %s are cluster-scoped; leave it out", field, resource)
	}
	text, err := labelSelectorText(field, permission.LabelSelector)
	mayDelete := slices.Contains(permission.Verbs, api.PermissionDelete)
	return handle.WritePermission{
		Resource: resource, Namespace: permission.Namespace, Labels: text,
		Apply: slices.Contains(permission.Verbs, api.PermissionApply), Delete: mayDelete, Evict: mayDelete,
	}, err
}

// labelSelectorText returns a selector for the API server.
func labelSelectorText(field string, selector *metav1.LabelSelector) (string, error) {
	read, err := metav1.LabelSelectorAsSelector(cmp.Or(selector, &metav1.LabelSelector{}))
	if err != nil {
		return "", invalid("%s.labelSelector: %w", field, err)
	}
	return read.String(), nil
}

func fieldSelectorText(field, text string) (string, error) {
	read, err := fields.ParseSelector(text)
	if err != nil {
		return "", invalid("%s.fieldSelector: %w; an example is metadata.name=NAME", field, err)
	}
	return read.String(), nil
}

// annotationMatcher returns a function for a selector that the API server cannot evaluate; nil for
// none.
func annotationMatcher(field string, declared *api.AnnotationSelector) (func(*object.Object) bool, error) {
	if declared == nil {
		return nil, nil //nolint:nilnil // No selector selects all.
	}
	selector, err := annotationSelector(declared)
	if err != nil {
		return nil, invalid("%s.annotationSelector: %w", field, err)
	}
	return compose.Selection{Annotations: selector}.Matches, nil
}
