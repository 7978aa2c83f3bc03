package compile

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/utils/ptr"

	api "github.com/setpoint-dev/setpoint/api/metacontroller/v1alpha1"
	setpoint "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/hook/codec"
	"github.com/setpoint-dev/setpoint/internal/controller/composite"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
	"github.com/setpoint-dev/setpoint/internal/plan/rolling"
)

// metacontrollerSpec has what a spec of metacontroller.k8s.io has in another form than one of setpoint.dev.
type metacontrollerSpec struct {
	controllerSpec `json:",inline"`

	Hooks               api.Hooks `json:"hooks"`
	ResyncPeriodSeconds *int32    `json:"resyncPeriodSeconds"`
}

func readMetacontroller(k Kind, o *object.Object, env Environment) (*neutralSpec, error) {
	var controller struct {
		Spec metacontrollerSpec `json:"spec"`
	}
	if err := readSpec(o, &controller); err != nil {
		return nil, err
	}
	spec := &controller.Spec
	hooks, err := readMetacontrollerHooks(spec.Hooks, spec.EndpointConfigs)
	if err != nil {
		return nil, err
	}
	if k.isDecorator() && len(spec.Resources) == 0 {
		return nil, invalid("spec.resources: required; it names the objects to decorate")
	}
	revisions, err := readPaths(spec.ParentResource.RevisionHistory.FieldPaths, parseDottedPath)
	if err != nil {
		return nil, err
	}
	d := &neutralSpec{
		targets: spec.targets(k),
		hooks:   hooks,
		notes:   unusedHookNotes(spec.Hooks),
		program: composite.Program{
			GenerateSelector: spec.GenerateSelector,
			// These kinds have no field for it.
			FullObjects: plan.Annotation(o, setpoint.AnnotationFullObjects) == "true",
			Revisions:   rolling.Revisions{FieldPaths: revisions},
			LastApplied: plan.MetacontrollerAppliedAnnotation,
			// Users have alerts for it.
			FailureReason: api.EventSyncError,
			// Metacontroller creates such children.
			Lenient: true,
		},
	}
	if period := spec.ResyncPeriodSeconds; period != nil {
		d.program.Resync = max(seconds(period), time.Second)
	}
	if !env.DisableDeletionGuard { // Nor do they have one for the guard.
		d.program.DeletionLimit = plan.DefaultDeletionLimit()
	}
	for i, c := range append(spec.ChildResources, spec.Attachments...) {
		field, rule := index(k.childrenField(), i), metacontrollerRule(c, env)
		if plain := strings.TrimPrefix(string(rule.Method), "Rolling"); k.isDecorator() && rule.Method.Rolling() {
			d.notes = append(d.notes, fmt.Sprintf("%s.updateStrategy.method: %s does the same as %s here: attachments have no revisions",
				field, rule.Method, plain))
			rule.Method = plan.UpdateMethod(plain)
		}
		d.children = append(d.children, childRule{resourceRef{field, c.APIVersion, c.Resource}, rule})
	}
	return d, nil
}

// metacontrollerRule has Metacontroller's defaults: existing children are not updated.
func metacontrollerRule(c setpoint.ChildResource, env Environment) plan.Rule {
	c.UpdateStrategy.Method = cmp.Or(c.UpdateStrategy.Method, setpoint.UpdateOnDelete)
	c.Apply = setpoint.ApplyStrategy(cmp.Or(env.ApplyStrategy, plan.Merge))
	return ruleOf(c)
}

// unusedHookNotes notes hooks that Metacontroller never calls either.
func unusedHookNotes(declared api.Hooks) []string {
	var notes []string
	if unlessOff(declared.PreUpdateChild) != nil {
		notes = append(notes, "spec.hooks.preUpdateChild is never called, as in Metacontroller")
	}
	if unlessOff(declared.PostUpdateChild) != nil {
		notes = append(notes, "spec.hooks.postUpdateChild is never called, as in Metacontroller")
	}
	return notes
}

// unlessOff returns a hook that is on: it has a webhook.
func unlessOff(declared *api.Hook) *api.Hook {
	if declared == nil || declared.Webhook == nil {
		return nil
	}
	return declared
}

func readMetacontrollerHooks(declared api.Hooks, configs []setpoint.EndpointConfig) (hooks, error) {
	h, err := readHooks(unlessOff(declared.Sync), unlessOff(declared.Finalize), unlessOff(declared.Customize), readMetacontrollerHook)
	if err != nil {
		return h, err
	}
	if h.sync == nil && h.finalize == nil {
		return h, invalid("spec.hooks.sync.webhook: required, unless there is a finalize hook")
	}
	return h, h.all().complete(configs)
}

// readMetacontrollerHook reads a webhook. The fields that setpoint.dev has, too, have the same names there.
func readMetacontrollerHook(of callOf, declared *api.Hook) (*hookConfig, error) {
	given := declared.Webhook
	var w setpoint.Webhook
	if err := json.Unmarshal(encode(given), &w); err != nil {
		return nil, invalid("%s.webhook: %w", of.field, err)
	}
	switch {
	case given.URL != nil:
		w.Service = nil
	case given.Service == nil || given.Path == nil:
		return nil, invalid("%s.webhook: set url, or service and path", of.field)
	default:
		w.Service.Port = cmp.Or(w.Service.Port, 80) // With https, too.
	}
	h := readWebhook(of, &w)
	if given.ETag != nil {
		h.webhook.etag.Cleanup = seconds(given.ETag.CacheCleanupSeconds)
	}
	h.wire = codec.Wire{Version: hook.V1, Decoding: codec.LooseOptional}
	if declared.Version == api.HookV2 {
		h.wire = codec.Wire{Version: hook.V2, Decoding: codec.StrictOptional}
	}
	switch given.ResponseUnMarshallMode {
	case api.ResponseUnMarshallStrict:
		h.wire.Decoding = codec.StrictOptional
	case api.ResponseUnMarshallLoose:
		h.wire.Decoding = codec.LooseOptional
	}
	return h, nil
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
