package compile

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/utils/ptr"

	api "github.com/setpoint-dev/setpoint/api/metacontroller/v1alpha1"
	setpoint "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/call/webhook"
	"github.com/setpoint-dev/setpoint/internal/controller/composite"
	"github.com/setpoint-dev/setpoint/internal/controller/trigger"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
)

// defaultIgnoreStatusChanges is the default of ignoreStatusChanges. Hooks for Metacontroller may
// depend on status changes, such as a decorator of pods.
const defaultIgnoreStatusChanges = false

// metacontrollerKind is a kind of Metacontroller.
func metacontrollerKind(plural, kind string) Kind {
	return kindOf(api.GroupVersion, plural, kind, compileHooks(readMetacontroller), conventions{
		finalizerPrefix: "metacontroller.io/" + strings.ToLower(kind) + "-",
		mark:            plan.MetacontrollerDecoratorMark,
	})
}

// metacontrollerSpec is the spec of a CompositeController or a DecoratorController, which calls
// the parents and children by other names.
type metacontrollerSpec struct {
	api.CompositeControllerSpec `json:",inline"`

	Resources   []metacontrollerParent `json:"resources"`
	Attachments []api.ChildResource    `json:"attachments"`
}

type metacontrollerParent struct {
	api.ParentResource `json:",inline"`

	AnnotationSelector *setpoint.AnnotationSelector `json:"annotationSelector"`
}

func readMetacontroller(k Kind, o *object.Object, env Environment) (*declared, error) {
	var controller struct {
		Spec metacontrollerSpec `json:"spec"`
	}
	if err := readSpec(o, &controller); err != nil {
		return nil, err
	}
	spec := &controller.Spec
	declaredHooks := ptr.Deref(spec.Hooks, api.Hooks{})
	hooks, err := readMetacontrollerHooks(declaredHooks, spec.EndpointConfigs)
	if err != nil {
		return nil, err
	}
	if k.isDecorator() && len(spec.Resources) == 0 {
		return nil, invalid("spec.resources: required; it names the objects to decorate")
	}
	revisions, err := readPaths(ptr.Deref(spec.ParentResource.RevisionHistory, api.RevisionHistory{}).FieldPaths, parseDottedPath)
	if err != nil {
		return nil, err
	}
	d := &declared{
		hooks: hooks,
		notes: unusedHookNotes(declaredHooks),
		program: composite.Program{
			GenerateSelector: ptr.Deref(spec.GenerateSelector, false),
			// These kinds have no field for it.
			FullObjects:   plan.Annotation(o, setpoint.AnnotationFullObjects) == "true",
			Resync:        metacontrollerResync(spec.ResyncPeriodSeconds),
			DeletionLimit: metacontrollerDeletionLimit(env),
			Revisions:     composite.Revisions{FieldPaths: revisions},
			LastApplied:   "metacontroller.k8s.io/last-applied-configuration",
			// Users have alerts for it.
			FailureReason: api.EventSyncError,
			// Metacontroller creates such children.
			Lenient: true,
		},
	}
	for field, r := range each(k.isDecorator(), "spec.resources", spec.Resources, "spec.parentResource",
		metacontrollerParent{ParentResource: spec.ParentResource}) {
		d.targets = append(d.targets, target{
			resourceRef:        resourceRef{field, r.APIVersion, r.Resource},
			labels:             r.LabelSelector,
			annotations:        r.AnnotationSelector,
			syncOnStatusChange: !ptr.Deref(r.IgnoreStatusChanges, defaultIgnoreStatusChanges),
		})
	}
	for i, c := range append(spec.ChildResources, spec.Attachments...) {
		field, rule := index(k.childrenField(), i), metacontrollerRule(c.UpdateStrategy, env)
		if plain := strings.TrimPrefix(string(rule.Method), "Rolling"); k.isDecorator() && rule.Method.Rolling() {
			d.notes = append(d.notes, fmt.Sprintf("%s.updateStrategy.method: %s does the same as %s here: attachments have no revisions",
				field, rule.Method, plain))
			rule.Method = plan.UpdateMethod(plain)
		}
		d.children = append(d.children, child{resourceRef{field, c.APIVersion, c.Resource}, rule})
	}
	return d, nil
}

// metacontrollerRule has Metacontroller's defaults: existing children are not updated.
func metacontrollerRule(declared *api.UpdateStrategy, env Environment) plan.Rule {
	s := ptr.Deref(declared, api.UpdateStrategy{})
	rule := plan.Rule{Method: plan.UpdateMethod(cmp.Or(s.Method, api.UpdateOnDelete)), Strategy: cmp.Or(env.ApplyStrategy, plan.Merge)}
	for _, check := range ptr.Deref(s.StatusChecks, api.StatusChecks{}).Conditions {
		rule.StatusChecks = append(rule.StatusChecks, plan.StatusCheck{Type: check.Type, Status: ptr.Deref(check.Status, ""),
			Reason: ptr.Deref(check.Reason, "")})
	}
	return rule
}

// unusedHookNotes notes hooks that Metacontroller never calls either.
func unusedHookNotes(declared api.Hooks) []string {
	var notes []string
	for _, one := range []struct {
		name     string
		declared *api.Hook
	}{{"preUpdateChild", declared.PreUpdateChild}, {"postUpdateChild", declared.PostUpdateChild}} {
		if one.declared != nil && one.declared.Webhook != nil {
			notes = append(notes, "spec.hooks."+one.name+" is never called, as in Metacontroller")
		}
	}
	return notes
}

// readMetacontrollerHooks reads the hooks of either kind. A hook without a webhook is off.
func readMetacontrollerHooks(declared api.Hooks, configs []api.EndpointConfig) (hooks, error) {
	var h hooks
	for _, one := range []struct {
		name     string
		declared *api.Hook
		into     **hookConfig
	}{
		{"sync", declared.Sync, &h.sync}, {"finalize", declared.Finalize, &h.finalize}, {"customize", declared.Customize, &h.customize},
	} {
		if one.declared == nil || one.declared.Webhook == nil {
			continue
		}
		read, err := readMetacontrollerHook("spec.hooks."+one.name+".webhook", one.declared)
		if err != nil {
			return h, err
		}
		read.name, *one.into = one.name, read
	}
	if h.sync == nil && h.finalize == nil {
		return h, invalid("spec.hooks.sync.webhook: required, unless there is a finalize hook")
	}
	endpoints := make([]endpoint, len(configs))
	for i := range configs {
		endpoints[i] = endpoint{index("spec.endpointConfigs", i), configs[i].Host, credentialsOf(configs[i].ConnectionSettings)}
	}
	if err := h.all().applyEndpoints(endpoints); err != nil {
		return hooks{}, err
	}
	return h, nil
}

func readMetacontrollerHook(field string, declared *api.Hook) (*hookConfig, error) {
	w := declared.Webhook
	to := &webhookConfig{credentials: credentialsOf(w.ConnectionSettings)}
	h := &hookConfig{field: field, webhook: to}
	h.wire.Version, h.wire.Decoding = hook.V1, hook.LooseOptional
	if declared.Version == api.HookV2 {
		h.wire.Version, h.wire.Decoding = hook.V2, hook.StrictOptional
	}
	switch w.ResponseUnMarshallMode {
	case api.ResponseUnMarshallStrict:
		h.wire.Decoding = hook.StrictOptional
	case api.ResponseUnMarshallLoose:
		h.wire.Decoding = hook.LooseOptional
	}
	if w.Timeout != nil {
		h.timeout = w.Timeout.Duration
	}
	if e := w.ETag; e != nil {
		to.etag = webhook.ETag{Enabled: ptr.Deref(e.Enabled, false), Timeout: seconds(e.CacheTimeoutSeconds),
			Cleanup: seconds(e.CacheCleanupSeconds)}
	}
	switch {
	case w.URL != nil:
		to.url = *w.URL
	case w.Service != nil && w.Path != nil:
		s := w.Service
		to.url = serviceURL(ptr.Deref(s.Protocol, "http"), s.Name, s.Namespace, ptr.Deref(s.Port, 80), *w.Path)
	default:
		return nil, invalid("%s: set url, or service and path", field)
	}
	return h, nil
}

// metacontrollerResync returns the resync period, which is at least a second.
func metacontrollerResync(period *int32) time.Duration {
	if period == nil {
		return 0
	}
	return max(seconds(period), time.Second)
}

// metacontrollerDeletionLimit returns the deletion limit, for which these kinds have no field.
func metacontrollerDeletionLimit(env Environment) *plan.DeletionLimit {
	if env.DisableDeletionGuard {
		return nil
	}
	return plan.DefaultDeletionLimit()
}

func seconds(n *int32) time.Duration { return time.Duration(ptr.Deref(n, 0)) * time.Second }

// parseDottedPath parses a path as Metacontroller does, without names that contain dots.
func parseDottedPath(text string) ([]string, error) {
	path := strings.Split(text, ".")
	if slices.Contains(path, "") {
		return nil, fmt.Errorf("%q is not a field path; an example is spec.template", text)
	}
	return path, nil
}

// readPaths parses the paths of the fields that make a revision.
func readPaths(texts []string, read func(string) ([]string, error)) ([][]string, error) {
	var paths [][]string
	for i, text := range texts {
		path, err := read(text)
		if err != nil {
			return nil, invalid("%s: %w", index("spec.parentResource.revisionHistory.fieldPaths", i), err)
		}
		// Like a handler that watches a whole object, a revision has what users set.
		if !new(trigger.Handler).Watches(path) {
			return nil, invalid("%s: %q changes with every write, so each write would make a revision; use fields of the spec, labels "+
				"or annotations",
				index("spec.parentResource.revisionHistory.fieldPaths", i), text)
		}
		paths = append(paths, path)
	}
	return paths, nil
}
