package compile

import (
	"cmp"
	"context"
	"encoding/json"
	"iter"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"

	api "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/internal/controller/handler"
	"github.com/setpoint-dev/setpoint/internal/controller/handler/permit"
	"github.com/setpoint-dev/setpoint/internal/controller/trigger"
	"github.com/setpoint-dev/setpoint/internal/lasthandled"
	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/object"
)

func (k Kind) compileHandlers(ctx context.Context, o *object.Object, env Environment) (*Compiled, error) {
	var controller api.HandlerController
	if err := readSpec(o, &controller); err != nil {
		return nil, err
	}
	spec := &controller.Spec
	handlers, configs, err := readHandlers(spec, env)
	if err != nil {
		return nil, err
	}
	backend, err := readBackend(spec)
	if err != nil {
		return nil, err
	}
	draft := handler.Program{
		Name:   k.Name + "/" + o.Name(),
		Object: snapshot(o, nil),
		Rules: trigger.Rules{
			Finalizer: cmp.Or(string(spec.Finalizer), k.finalizer(o.Name())), ReplacedAnnotation: spec.ReplacedAnnotation,
			Record: lasthandled.Location{Annotation: recordAnnotation(o.Name())},
		},
		Manager: k.manager(o.Name(), env),
		Workers: env.Workers,
		Account: env.AccountOf(spec.Identity),
	}
	if draft.ReplacedFinalizers, err = replacedFinalizers(spec, draft.Finalizer); err != nil {
		return nil, err
	}
	programs, unserved, err := resolveHandled(ctx, env, spec, draft)
	if err != nil {
		return nil, err
	}
	for i := range programs {
		// A ReplicaSet has the annotations of its Deployment, another handled kind: Kubernetes copies them.
		if len(spec.Resources) > 0 && isReplicaSet(programs[i].Resource) {
			programs[i].Record.Annotation = copiedRecordAnnotation(o.Name())
		}
		if err := checkAccount(draft.Account, programs[i].Resource); err != nil {
			return nil, err
		}
		if err := setStatusFields(ctx, env, o.Name(), &programs[i]); err != nil {
			return nil, err
		}
		if err := checkPreviousState(handlers, programs[i].Resource); err != nil {
			return nil, err
		}
	}
	c := &connection{name: draft.Name, object: k.Resource.Ref("", o.Name()), account: draft.Account, env: env}
	opened, err := c.openAll(ctx, configs)
	if err != nil {
		return nil, err
	}
	process, err := c.openBackend(backend)
	if err != nil {
		c.close()
		return nil, err
	}
	for i := range handlers {
		handlers[i].Do = opened[i]
	}
	for i := range programs {
		programs[i].Handlers, programs[i].Backend = slices.Clone(handlers), process
	}
	compiled := c.compiled(o, slices.Concat(configs, backend.all()), spec.Suspend)
	compiled.Handlers, compiled.Unserved = programs, unserved
	compiled.Notes = append(env.handlerNotes(spec), compiled.Notes...)
	return compiled, nil
}

// replacedFinalizers returns the finalizers of a former controller, without which the own one must do. It rejects an own
// one that is the default of another controller.
func replacedFinalizers(spec *api.HandlerControllerSpec, own string) ([]string, error) {
	if group := api.GroupVersion.Group; strings.HasPrefix(string(spec.Finalizer), group+"/") {
		return nil, invalid("spec.finalizer: must not be of %s, whose finalizers are those of controllers without this field", group)
	}
	var all []string
	for i, name := range spec.ReplacedFinalizers {
		if string(name) == own {
			return nil, invalid("%s: %s is the finalizer of this controller; Setpoint would remove what it adds",
				index("spec.replacedFinalizers", i), own)
		}
		all = append(all, string(name))
	}
	return all, nil
}

// handledBy returns the selections of handled objects with the paths of their fields.
func handledBy(spec *api.HandlerControllerSpec) iter.Seq2[string, api.HandledResource] {
	return each(len(spec.Resources) > 0, "spec.resources", spec.Resources, "spec.resource", spec.Resource)
}

// resolveHandled finds the kinds that a controller handles and writes, and returns a program for each handled
// kind, and those that are not served any more.
func resolveHandled(ctx context.Context, env Environment, spec *api.HandlerControllerSpec,
	draft handler.Program) (programs []handler.Program, unserved []object.Resource, err error) {
	if (spec.Resource.Resource != "") == (len(spec.Resources) > 0) {
		return nil, nil, invalid("spec: exactly one of resource and resources is required")
	}
	var missing error
	for field, handled := range handledBy(spec) {
		p := draft
		if err := resolveObjects(ctx, env, field, handled, &p); err != nil {
			return nil, nil, err
		}
		if p.Resource.Unserved {
			unserved, missing = append(unserved, p.Resource), notServed(resourceRef{field, handled.APIVersion, handled.Resource})
			continue
		}
		for i := range programs {
			if programs[i].Resource.GroupKind() == p.Resource.GroupKind() {
				return nil, nil, invalid("%s: the kind %s is listed before; use labelSelector or annotationSelector of the handlers",
					field, p.Resource.Kind)
			}
		}
		programs = append(programs, p)
	}
	if len(programs) == 0 {
		return nil, nil, missing
	}
	if err := resolveOwned(ctx, env, spec.Owns, programs); err != nil {
		return nil, nil, err
	}
	for i, permission := range spec.Permissions {
		write, err := resolveWrite(ctx, env, index("spec.permissions", i), permission)
		if err != nil {
			return nil, nil, err
		}
		for j := range programs {
			programs[j].Writes = append(programs[j].Writes, write)
		}
	}
	return programs, unserved, nil
}

// resolveObjects finds the kind of handled objects, and parses their selectors.
func resolveObjects(ctx context.Context, env Environment, field string, handled api.HandledResource, p *handler.Program) error {
	var err error
	p.Resource, err = resolveUsed(ctx, env, resourceRef{field, handled.APIVersion, handled.Resource})
	if err != nil || p.Resource.Unserved {
		return err
	}
	if p.Namespaces, err = env.limit(field+".namespaces", handled.Namespaces, p.Resource); err != nil {
		return err
	}
	if p.Labels, err = labelSelectorText(field, handled.LabelSelector); err != nil {
		return err
	}
	if p.Fields, err = fieldSelectorText(field, handled.FieldSelector); err != nil {
		return err
	}
	selected, err := (&target{resourceRef: resourceRef{field: field}, annotations: handled.AnnotationSelector}).selection()
	if err == nil && !selectsAll(selected) {
		p.Matches = selected.Matches
	}
	return err
}

// setStatusFields sets which status fields a program may use.
func setStatusFields(ctx context.Context, env Environment, name string, p *handler.Program) error {
	if env.StatusOf == nil {
		return nil
	}
	status, err := env.StatusOf(ctx, p.Resource)
	if err != nil {
		return err
	}
	p.Conditions = status.Conditions
	if status.Records {
		p.Record.StatusKey = handlerSignature(name)
	}
	return nil
}

// resolveOwned finds the kinds that handlers create for their objects. Only cluster-scoped objects can own
// cluster-scoped ones.
func resolveOwned(ctx context.Context, env Environment, owns []api.ResourceRule, programs []handler.Program) error {
	var all []object.Resource
	inNamespaces := !slices.ContainsFunc(programs, func(p handler.Program) bool { return !p.Resource.Namespaced })
	for i, rule := range owns {
		field := index("spec.owns", i)
		resource, err := resolveUsed(ctx, env, resourceRef{field, rule.APIVersion, rule.Resource})
		if err != nil {
			return err
		}
		if inNamespaces && !resource.Namespaced {
			return invalid("%s: %s are cluster-scoped and cannot belong to the namespaced %s; list them in permissions, and return them "+
				"as unowned", field, resource, programs[0].Resource)
		}
		if slices.ContainsFunc(all, func(other object.Resource) bool { return other.GroupKind() == resource.GroupKind() }) {
			return invalid("%s: the kind %s is listed before", field, resource.Kind)
		}
		all = append(all, resource)
		for j := range programs {
			if p := &programs[j]; resource.Namespaced || !p.Resource.Namespaced {
				p.Owns = append(p.Owns, resource)
			}
		}
	}
	return nil
}

func resolveWrite(ctx context.Context, env Environment, field string, p api.Permission) (permit.Write, error) {
	resource, err := resolveUsed(ctx, env, resourceRef{field, p.APIVersion, p.Resource})
	if err != nil {
		return permit.Write{}, err
	}
	if p.Namespace != "" && !resource.Namespaced {
		return permit.Write{}, invalid("%s.namespace: %s are cluster-scoped; leave it out", field, resource)
	}
	text, err := labelSelectorText(field, p.LabelSelector)
	mayDelete := slices.Contains(p.Verbs, api.PermissionDelete)
	return permit.Write{
		Resource: resource, Namespace: p.Namespace, Labels: text,
		Apply: slices.Contains(p.Verbs, api.PermissionApply), Delete: mayDelete, Evict: mayDelete,
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

// handlerNotes names the namespaces in a spec that Setpoint is not limited to.
func (env *Environment) handlerNotes(spec *api.HandlerControllerSpec) []string {
	var notes []string
	for field, handled := range handledBy(spec) {
		notes = append(notes, env.excludedNotes(field+".namespaces", handled.Namespaces)...)
	}
	for i, permission := range spec.Permissions {
		notes = env.excludedNote(notes, index("spec.permissions", i)+".namespace", permission.Namespace)
	}
	return notes
}

// backendHooks are the webhooks of the process of handlers that no handler has; nil for none.
type backendHooks struct{ index, notifications *hookConfig }

func readBackend(spec *api.HandlerControllerSpec) (b backendHooks, err error) {
	if spec.Index != nil {
		if b.index, err = readBackendWebhook("spec.index", spec.Index.Webhook); err != nil {
			return b, err
		}
	}
	if spec.Notifications != nil {
		if b.notifications, err = readBackendWebhook("spec.notifications", spec.Notifications.Webhook); err != nil {
			return b, err
		}
	}
	return b, b.all().applyEndpoints(spec.EndpointConfigs)
}

// readBackendWebhook reads what only a process can be.
func readBackendWebhook(field string, declared *api.Webhook) (*hookConfig, error) {
	if declared == nil {
		return nil, invalid("%s.webhook: required", field)
	}
	return readUncached(callOf{field: field}, &api.HookCall{Webhook: declared})
}

func (b backendHooks) all() hookConfigs {
	return lists.Filter([]*hookConfig{b.index, b.notifications}, func(one *hookConfig) bool { return one != nil })
}

// openBackend returns the process of the handlers. Controllers with the same URL and credentials
// of notifications have one process.
func (c *connection) openBackend(b backendHooks) (handler.Backend, error) {
	backend := handler.Backend{ID: c.name}
	if b.index != nil {
		opened, err := c.open(b.index)
		if err != nil {
			return backend, err
		}
		backend.Index = opened.Index
	}
	if b.notifications != nil {
		opened, err := c.open(b.notifications)
		if err != nil {
			return backend, err
		}
		backend.Notifications = opened.Notifications
		backend.ID = c.streamID(b.notifications)
	}
	return backend, nil
}

// streamID identifies a stream: its URL, and what the connection needs.
func (c *connection) streamID(h *hookConfig) string {
	id, err := json.Marshal(map[string]any{"url": h.webhook.url, "credentials": h.webhook.credentials, "account": c.account})
	if err != nil {
		return c.name // Then the process is this controller's alone.
	}
	return string(id)
}
