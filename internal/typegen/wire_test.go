package typegen_test

import (
	"encoding/json"
	"errors"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"sigs.k8s.io/yaml"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/hook/codec"
	"github.com/setpoint-dev/setpoint/internal/must"
)

// wire returns the types of wire.yaml.
func wire(t *testing.T) (types map[string]spec.Schema) {
	t.Helper()
	text := must.Get(os.ReadFile("wire.yaml")).In(t)
	must.Succeed(t, yaml.Unmarshal(text, &types))
	return types
}

// Requests have the fields that package hook sends, and all of them are required. Inline hooks
// receive the time besides.
func TestRequestsAreThoseOfHooks(t *testing.T) {
	for name, sent := range map[string][]byte{
		"SyncRequest":          codec.AppendSyncRequest(nil, &hook.Request{}, codec.Wire{ControllerType: hook.Composite}),
		"DecoratorSyncRequest": codec.AppendSyncRequest(nil, &hook.Request{}, codec.Wire{ControllerType: hook.Decorator}),
		"CustomizeRequest":     codec.AppendCustomizeRequest(nil, &hook.CustomizeRequest{}),
		"HandlerRequest":       codec.AppendHandlerRequest(nil, &hook.HandlerRequest{}),
		"ReviewRequest":        codec.AppendReviewRequest(nil, &hook.ReviewRequest{}),
		"FieldChange":          firstOf(t, codec.AppendHandlerRequest(nil, &hook.HandlerRequest{Changes: []hook.FieldChange{{}}}), "changes"),
	} {
		var fields map[string]json.RawMessage
		must.Succeed(t, json.Unmarshal(sent, &fields))
		want := slices.Sorted(maps.Keys(fields))
		declared := wire(t)[name]
		got := slices.DeleteFunc(slices.Sorted(maps.Keys(declared.Properties)), func(field string) bool { return field == "time" })
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("fields of %s (-package hook +wire.yaml):\n%s", name, diff)
		}
		if diff := cmp.Diff(want, slices.Sorted(slices.Values(declared.Required))); diff != "" {
			t.Errorf("required fields of %s (-package hook +wire.yaml):\n%s", name, diff)
		}
	}
}

func firstOf(t *testing.T, text []byte, field string) json.RawMessage {
	t.Helper()
	var fields map[string]json.RawMessage
	var items []json.RawMessage
	must.Succeed(t, json.Unmarshal(text, &fields))
	must.Succeed(t, json.Unmarshal(fields[field], &items))
	return items[0]
}

// Package hook reads each field of a response in strict mode.
func TestResponsesAreThoseOfHooks(t *testing.T) {
	const (
		object    = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"}}`
		event     = `"type":"Warning","reason":"A","message":"m"`
		condition = `[{"type":"A","status":"True","reason":"B","message":"m","lastTransitionTime":null,"observedGeneration":1}]`
		common    = `"message":"m","events":[{` + event + `}],"conditions":` + condition
		desired   = `"status":{},"resyncAfterSeconds":1.5,"logicVersion":"1","finalized":true,` + common
	)
	decodeAs := func(form hook.ControllerType) func([]byte) error {
		return func(text []byte) error {
			_, err := codec.DecodeSyncResponse(text, codec.Wire{ControllerType: form, Decoding: codec.Strict})
			return err
		}
	}
	handler := func(text []byte) error { _, err := codec.DecodeHandlerResponse(text, codec.Strict); return err }
	review := func(text []byte) error { _, err := codec.DecodeReviewResponse(text, codec.Strict); return err }
	customize := func(text []byte) error { _, err := codec.DecodeCustomizeResponse(text, codec.Strict); return err }
	for _, c := range []struct {
		name      string
		decode    func([]byte) error
		responses []string
	}{
		{"SyncResponse", decodeAs(hook.Composite), []string{`{"children":[` + object + `],` + desired + `}`}},
		{"DecoratorSyncResponse", decodeAs(hook.Decorator), []string{`{"attachments":[` + object + `],"labels":{"a":null},"annotations":{"a":"b"},` + desired + `}`}},
		{"CustomizeResponse", customize, []string{`{"relatedResources":[{"apiVersion":"v1","resource":"pods","namespace":"a","names":["b"]},
			{"apiVersion":"v1","resource":"pods","labelSelector":{"matchLabels":{"a":"b"}},"namespaceSelector":{}}]}`}},
		{"HandlerResponse", handler, []string{
			`{"patch":{},"status":{},"apply":[` + object + `,{"object":` + object + `,"unowned":true}],"retryAfterSeconds":1,"progress":{},"finished":true,` + common + `,
			"delete":[{"apiVersion":"v1","kind":"Pod","namespace":"a","name":"b","evict":true},{"apiVersion":"v1","kind":"Pod","selector":"a=b"}]}`,
			`{"error":{"message":"m","permanent":true}}`, `{"applicable":false}`, `{"sideEffects":false}`,
		}},
		{"ReviewResponse", review, []string{
			`{"allowed":true,"object":` + object + `,"warnings":["w"],"auditAnnotations":{"a":"b"},
			"events":[{` + event + `,"object":{"apiVersion":"v1","kind":"Pod","namespace":"a","name":"b","uid":"c"}}]}`,
			`{"allowed":true,"patch":{}}`, `{"allowed":true,"jsonPatch":[{"op":"move","path":"/a","from":"/b"},{"op":"add","path":"/a","value":1}]}`,
			`{"allowed":false,"message":"m","reason":"Invalid","code":422}`,
		}},
	} {
		used := map[string]bool{}
		for _, response := range c.responses {
			err := c.decode([]byte(response))
			if _, malformed := errors.AsType[*hook.MalformedError](err); malformed {
				t.Errorf("%s: %s: %v", c.name, response, err)
			}
			var fields map[string]json.RawMessage
			must.Succeed(t, json.Unmarshal([]byte(response), &fields))
			for name := range fields {
				used[name] = true
			}
		}
		if diff := cmp.Diff(slices.Sorted(maps.Keys(used)), slices.Sorted(maps.Keys(wire(t)[c.name].Properties))); diff != "" {
			t.Errorf("fields of %s (-package hook +wire.yaml):\n%s", c.name, diff)
		}
	}
}

// A logicVersion that the schema allows is one that package hook reads, and the other way round.
func TestLogicVersionsAreThoseOfHooks(t *testing.T) {
	versions := []string{"", "é", "a\u2028b", "\u202e1", strings.Repeat("1", 128), strings.Repeat("1", 129)}
	for c := range rune(0xa0) {
		versions = append(versions, "1"+string(c)+"2")
	}
	for _, c := range []struct {
		name, children string
		form           hook.ControllerType
	}{
		{"SyncResponse", "children", hook.Composite},
		{"DecoratorSyncResponse", "attachments", hook.Decorator},
	} {
		schema := wire(t)[c.name].Properties["logicVersion"]
		pattern := regexp.MustCompile(schema.Pattern)
		for _, version := range versions {
			response := must.Get(json.Marshal(map[string]any{"logicVersion": version, c.children: []any{}})).In(t)
			_, err := codec.DecodeSyncResponse(response, codec.Wire{ControllerType: c.form, Decoding: codec.Strict})
			if allowed := pattern.MatchString(version) && len([]rune(version)) <= int(*schema.MaxLength); allowed != (err == nil) {
				t.Errorf("%s: logicVersion %q: the schema allows it: %v, package hook: %v", c.name, version, allowed, err)
			}
		}
	}
}
