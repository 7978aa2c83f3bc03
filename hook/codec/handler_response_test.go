package codec_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/hook/codec"
	"github.com/setpoint-dev/setpoint/internal/must"
)

func fmtObject(name string, size int) json.RawMessage {
	return fmt.Appendf(nil, `{"metadata":{"name":%q},"data":{"v":"%0*d"}}`, name, size, 0)
}

func TestDecodeHandlerResponse(t *testing.T) {
	loose := []codec.Decoding{codec.Loose}
	eachMode(t, []decodeCase{
		{"nothing", modes, `{}`, ``},
		{"null fields", modes, `{"patch":null,"status":null,"apply":null,"delete":null,"events":null,"conditions":null,"message":null,"retryAfterSeconds":null,"error":null}`, ``},
		{"empty fields", modes, `{"patch":{},"status":{},"apply":[],"delete":[],"events":[],"conditions":[],"message":"","retryAfterSeconds":0}`, `patch={} status={}`},
		{"patch", modes, ` { "patch": { "spec" : {"review":true,"x":null,"status":1} }}`, `patch={ "spec" : {"review":true,"x":null,"status":1} }`},
		{"patch of the metadata", modes, `{"patch":{"metadata":{"labels":{"a":null,"b":"1"},"annotations":{"x.y/z":"any: thing"}}}}`,
			`patch={"metadata":{"labels":{"a":null,"b":"1"},"annotations":{"x.y/z":"any: thing"}}}`},
		{"status", modes, `{"status":{"rate":1.1901,"old":null}}`, `status={"rate":1.1901,"old":null}`},
		{"apply", modes, `{"apply":[` + pod + `,{"object":` + pod + `},{"unowned":true,"object":` + pod + `}]}`,
			`apply=` + pod + ` apply=` + pod + ` apply(unowned)=` + pod},
		{"apply as written", modes, `{"apply":[{ "metadata": {"name":"a"}, "kind":"Pod", "apiVersion":"v1","x":[] }]}`, `apply={ "metadata": {"name":"a"}, "kind":"Pod", "apiVersion":"v1","x":[] }`},
		{"apply what has an object of its own", modes, `{"apply":[{"object":{"apiVersion":"v1","kind":"A","metadata":{"name":"a"},"object":{}}}]}`,
			`apply={"apiVersion":"v1","kind":"A","metadata":{"name":"a"},"object":{}}`},
		{"delete", modes, `{"delete":[{"apiVersion":"v1","kind":"Pod","name":"a","evict":true},{"apiVersion":"apps/v1","kind":"Deployment","namespace":"b","selector":"app=web,tier!=cache"}]}`,
			`delete={v1 Pod  a  true} delete={apps/v1 Deployment b  app=web,tier!=cache false}`},
		{"events and conditions", modes, `{"message":"m","events":[{"reason":"Fed"},{"type":"Warning","reason":"Hungry","message":"no food"}],"conditions":[{"type":"Ready","status":"True","reason":"Fed"}]}`,
			`message=m event={Normal Fed } event={Warning Hungry no food} condition={Ready True Fed }`},
		{"not done yet", modes, `{"status":{"a":1},"retryAfterSeconds":1.5}`, `status={"a":1} retry=1.5s`},
		{"endless retry", modes, `{"retryAfterSeconds":1e999}`, `retry=8760h0m0s`},
		{"progress", modes, `{"progress": {"a" : [1, {"b":null}]},"retryAfterSeconds":1}`, `progress={"a":[1,{"b":null}]} retry=1s`},
		{"empty progress", modes, `{"progress":{},"retryAfterSeconds":1}`, `progress={} retry=1s`},
		{"progress of 8 KiB", modes, `{"progress":{"a":"` + strings.Repeat("x", 8184) + `"},"retryAfterSeconds":1}`, `progress={"a":"` + strings.Repeat("x", 8184) + `"} retry=1s`},
		{"progress null", modes, `{"progress":null}`, ``},
		{"applicable", modes, `{"applicable":true,"message":"m"}`, `message=m`},
		{"applicable null", modes, `{"applicable":null}`, ``},
		{"no side effects", modes, `{"sideEffects":false,"events":[]}`, `no side effects`},
		{"side effects", modes, `{"sideEffects":true}`, ``},
		{"not applicable", modes, `{"applicable":false,"apply":[]}`, `not applicable`},
		{"daemon finished", modes, `{"finished":true,"status":{"a":1}}`, `status={"a":1} finished`},
		{"error beside all that is written", modes, `{"error":{"message":"no"},"patch":{"spec":{}},"status":{"a":1},"message":"m","events":[{"reason":"Fed"}],` +
			`"conditions":[{"type":"A","status":"True","reason":"B"}],"progress":{"a":1}}`,
			`patch={"spec":{}} status={"a":1} message=m event={Normal Fed } condition={A True B } progress={"a":1} err=no`},
		{"error beside an event, later", modes, `{"error":{"message":"no"},"events":[{"reason":"Fed"}],"retryAfterSeconds":90}`, `event={Normal Fed } err=after 1m30s: no`},
		{"permanent error beside a status", modes, `{"error":{"message":"no","permanent":true},"status":{}}`, `status={} err=terminal: no`},
		{"unknown field beside", loose, `{"message":"m","X":{"a":[1]}}`, `message=m`},
		{"unknown field in a deletion", loose, `{"delete":[{"apiVersion":"v1","kind":"Pod","name":"a","X":1}]}`, `delete={v1 Pod  a  false}`},
		{"unknown field beside an object", loose, `{"apply":[{"object":` + pod + `,"X":1}]}`, `apply=` + pod},
		{"field twice", loose, `{"apply":[` + pod + `,` + pod + `],"apply":[],"message":"a","message":"b"}`, `message=b`},
		{"negative retry", loose, `{"retryAfterSeconds":-1}`, ``},
	}, func(t *testing.T, c decodeCase, mode codec.Decoding) {
		response := must.Get(codec.DecodeHandlerResponse([]byte(c.response), mode)).In(t)
		if got := formatHandlerResponse(response); got != c.want {
			t.Errorf("got  %s\nwant %s", got, c.want)
		}
	})
}

// formatHandlerResponse formats a response in one line.
func formatHandlerResponse(a *hook.HandlerResponse) string {
	var parts []string
	add := func(name string, value any) { parts = append(parts, fmt.Sprintf("%s=%v", name, value)) }
	if a.Patch != nil {
		add("patch", string(a.Patch))
	}
	if a.Status != nil {
		add("status", string(a.Status))
	}
	for _, one := range a.Apply {
		add(map[bool]string{false: "apply", true: "apply(unowned)"}[one.Unowned], string(one.Object))
	}
	for _, one := range a.Delete {
		add("delete", one)
	}
	if a.Message != "" {
		add("message", a.Message)
	}
	for _, one := range a.Events {
		add("event", one)
	}
	for _, one := range a.Conditions {
		add("condition", one)
	}
	if a.Progress != nil {
		add("progress", string(a.Progress))
	}
	if a.RetryAfter != 0 {
		add("retry", a.RetryAfter)
	}
	if a.Err != nil {
		add("err", formatError(a.Err))
	}
	if a.NoSideEffects {
		parts = append(parts, "no side effects")
	}
	if a.NotApplicable {
		parts = append(parts, "not applicable")
	}
	if a.Finished {
		parts = append(parts, "finished")
	}
	return strings.Join(parts, " ")
}

func TestDecodeHandlerResponseMalformed(t *testing.T) {
	strict := []codec.Decoding{codec.Strict}
	known := []codec.Decoding{codec.Strict, codec.StrictOptional}
	loose := []codec.Decoding{codec.Loose}
	eachMode(t, []decodeCase{
		{"empty", modes, ``, `empty`},
		{"null", modes, `null`, `must be an object, is null`},
		{"text", modes, `"ok"`, `must be an object, is a string`},
		{"web page", modes, `<html>`, `invalid character '<' at start of value at byte 0`},
		{"more than one", modes, `{}{}`, `more than one JSON value`},
		{"cut short", modes, `{"apply":[` + pod + `,{"apiVersion":"v1"`, `apply[1]: cut short after 85 bytes`},
		{"unknown field", known, `{"pach":{}}`, `pach: unknown field; did you mean "patch"?`},
		{"unknown field alone", loose, `{"ok":true}`, `ok: unknown field in a response without known fields; return {} to do nothing`},
		{"misspelt field alone", loose, `{"aply":[]}`, `aply: unknown field in a response without known fields; did you mean "apply"?; return {} to do nothing`},
		{"field twice", known, `{"patch":{},"patch":{}}`, `patch: given twice`},
		{"field twice within", known, `{"patch":{"spec":{"a":1,"a":2}}}`, `patch.spec.a: given twice`},

		{"patch a list", modes, `{"patch":[{"op":"add"}]}`, `patch: must be an object, is a list`},
		{"patch of the kind", modes, `{"patch":{"kind":"Pod"}}`, `patch.kind: cannot be patched: it identifies the object`},
		{"patch of the apiVersion", modes, `{"patch":{"spec":{},"apiVersion":"v1"}}`, `patch.apiVersion: cannot be patched: it identifies the object`},
		{"patch of the status", modes, `{"patch":{"st\u0061tus":{}}}`, `patch.status: cannot be patched here; use the field status of the response`},
		{"patch of the name", modes, `{"patch":{"metadata":{"labels":{"a":"b"},"name":"x"}}}`, `patch.metadata.name: cannot be patched: only labels and annotations of the metadata can`},
		{"patch of the namespace", modes, `{"patch":{"metadata":{"namespace":"x"}}}`, `patch.metadata.namespace: cannot be patched: only labels and annotations of the metadata can`},
		{"patch of the uid", modes, `{"patch":{"metadata":{"uid":"x"}}}`, `patch.metadata.uid: cannot be patched: only labels and annotations of the metadata can`},
		{"patch of finalizers", modes, `{"patch":{"metadata":{"finalizers":[]}}}`, `patch.metadata.finalizers: cannot be patched: only labels and annotations of the metadata can`},
		{"patch of all metadata", modes, `{"patch":{"metadata":null}}`, `patch.metadata: must be an object, is null`},
		{"patch of all labels", modes, `{"patch":{"metadata":{"labels":null}}}`, `patch.metadata.labels: must be an object, is null; to remove a key, set the key to null`},
		{"patch of a label", modes, `{"patch":{"metadata":{"labels":{"a":1}}}}`, `patch.metadata.labels.a: must be a string, is a number`},

		{"status a list", modes, `{"status":[]}`, `status: must be an object, is a list`},
		{"status text", loose, `{"status":"ok"}`, `status: must be an object, is a string`},

		{"apply an object", modes, `{"apply":` + pod + `}`, `apply: must be a list, is an object`},
		{"apply null", modes, `{"apply":[null]}`, `apply[0]: must be an object, is null`},
		{"apply nothing", modes, `{"apply":[` + pod + `,{}]}`, `apply[1].apiVersion: required`},
		{"apply without a name", modes, `{"apply":[{"apiVersion":"v1","kind":"Pod","metadata":{"generateName":"a-"}}]}`, `apply[0].metadata.name: required`},
		{"apply in full without a kind", modes, `{"apply":[{"object":{"apiVersion":"v1"}}]}`, `apply[0].object.kind: required`},
		{"unowned nothing", modes, `{"apply":[{"unowned":true}]}`, `apply[0].object: required`},
		{"unowned in the object", known, `{"apply":[{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"},"unowned":true}]}`, `apply[0].object: required`},
		{"unknown field beside an object", known, `{"apply":[{"object":` + pod + `,"Unowned":true}]}`, `apply[0].Unowned: unknown field next to object and unowned; fields of the object belong in the field object`},
		{"unowned text", modes, `{"apply":[{"object":` + pod + `,"unowned":"no"}]}`, `apply[0].unowned: must be true or false, is a string`},

		{"delete text", modes, `{"delete":["a"]}`, `delete[0]: must be an object, is a string`},
		{"delete without apiVersion", modes, `{"delete":[{"kind":"Pod","name":"a"}]}`, `delete[0].apiVersion: required`},
		{"delete without kind", modes, `{"delete":[{"apiVersion":"v1","name":"a"}]}`, `delete[0].kind: required`},
		{"delete what", modes, `{"delete":[{"apiVersion":"v1","kind":"Pod"}]}`, `delete[0]: name or selector required`},
		{"delete by empty selector", modes, `{"delete":[{"apiVersion":"v1","kind":"Pod","selector":""}]}`, `delete[0]: name or selector required`},
		{"delete all", modes, `{"delete":[{"apiVersion":"v1","kind":"Pod","selector":" "}]}`, `delete[0].selector: selects everything; select what to delete`},
		{"delete by both", modes, `{"delete":[{"apiVersion":"v1","kind":"Pod","name":"a","selector":"a=b"}]}`, `delete[0].selector: not allowed with a name`},
		{"delete by malformed selector", modes, `{"delete":[{"apiVersion":"v1","kind":"Pod","selector":"a in b"}]}`, `delete[0].selector: "a in b": must be a label selector, such as "app=web,tier!=cache"`},
		{"delete by a selector's object", modes, `{"delete":[{"apiVersion":"v1","kind":"Pod","selector":{"matchLabels":{}}}]}`, `delete[0].selector: must be a string, is an object`},
		{"evict no pod", modes, `{"delete":[{"apiVersion":"v1","kind":"ConfigMap","name":"a","evict":true}]}`, `delete[0].evict: only pods can be evicted`},
		{"unknown field in a deletion", known, `{"delete":[{"apiVersion":"v1","kind":"Pod","labelSelector":"a=b"}]}`, `delete[0].labelSelector: unknown field; did you mean "selector"?`},

		{"event without a reason", modes, `{"events":[{"message":"m"}]}`, `events[0].reason: required`},
		{"condition twice", modes, `{"conditions":[{"type":"A","status":"True","reason":"B"},{"type":"A","status":"True","reason":"B"}]}`, `conditions[1].type: "A" is given twice`},
		{"negative retry", strict, `{"retryAfterSeconds":-1}`, `retryAfterSeconds: must not be negative`},
		{"retry text", modes, `{"retryAfterSeconds":"1s"}`, `retryAfterSeconds: must be a number, is a string`},

		{"error text", modes, `{"error":"no"}`, `error: must be an object, is a string`},
		{"error without a message", modes, `{"error":{"permanent":true}}`, `error.message: required`},
		{"unknown field in an error", known, `{"error":{"message":"m","fatal":true}}`, `error.fatal: unknown field`},
		{"error beside apply", modes, `{"apply":[` + pod + `],"error":{"message":"m"}}`, `apply: not allowed with an error, beside which only patch, status, events, conditions, message and progress are written`},
		{"error beside delete", modes, `{"error":{"message":"m"},"delete":[{"apiVersion":"v1","kind":"Pod","name":"a"}]}`, `delete: not allowed with an error, beside which only patch, status, events, conditions, message and progress are written`},
		{"error beside finished", modes, `{"error":{"message":"m"},"finished":true}`, `finished: not allowed with an error, after which the daemon is started again`},
		{"permanent error with progress", modes, `{"error":{"message":"m","permanent":true},"progress":{}}`, `progress: not allowed with a permanent error, which is not retried`},
		{"progress of a complete call", modes, `{"progress":{"a":1}}`, `progress: requires retryAfterSeconds or an error: without them the call is complete`},
		{"progress a list", modes, `{"progress":[],"retryAfterSeconds":1}`, `progress: must be an object, is a list`},
		{"progress over 8 KiB", modes, `{"progress":{"a":"` + strings.Repeat("x", 8185) + `"},"retryAfterSeconds":1}`,
			`progress: must not exceed 8192 bytes, has 8193: Setpoint stores it in the object; keep more elsewhere`},
		{"not applicable with a write", modes, `{"applicable":false,"status":{}}`, `status: not allowed with applicable false, which writes nothing`},
		{"not applicable with an error", modes, `{"applicable":false,"error":{"message":"m"}}`, `error: not allowed with applicable false`},
		{"not applicable with a retry", modes, `{"applicable":false,"retryAfterSeconds":1}`, `retryAfterSeconds: not allowed with applicable false: the handler is called when the object changes`},
		{"no side effects with a write", modes, `{"sideEffects":false,"status":{}}`, `sideEffects: false is allowed only alone: the handler did nothing`},
		{"no side effects with an error", modes, `{"sideEffects":false,"error":{"message":"m"}}`, `sideEffects: false is allowed only alone: the handler did nothing`},
		{"applicable text", modes, `{"applicable":"no"}`, `applicable: must be true or false, is a string`},
		{"permanent error to come again", modes, `{"error":{"message":"m","permanent":true},"retryAfterSeconds":1}`, `retryAfterSeconds: not allowed with a permanent error, which is not retried`},
	}, func(t *testing.T, c decodeCase, mode codec.Decoding) {
		response, err := codec.DecodeHandlerResponse([]byte(c.response), mode)
		if response != nil {
			t.Errorf("got response %s", formatHandlerResponse(response))
		}
		checkMalformedError(t, err, c.want)
	})
}

func TestDecodeHandlerResponseErrors(t *testing.T) {
	long := strings.Repeat("x", 5000)
	for _, c := range []struct {
		name, response, want string
	}{
		{"plain", `{"error":{"message":"service down"}}`, `service down`},
		{"beside empty fields", `{"error":{"message":"service down","permanent":false},"patch":null,"apply":[],"message":""}`, `service down`},
		{"later", `{"retryAfterSeconds":90,"error":{"message":"service down"}}`, `after 1m30s: service down`},
		{"permanent", `{"error":{"message":"no such currency","permanent":true}}`, `terminal: no such currency`},
		{"long", `{"error":{"message":"` + long + `"}}`, long[:1000] + "…"},
	} {
		for _, mode := range modes {
			t.Run(c.name+"/"+mode.String(), func(t *testing.T) {
				response, err := codec.DecodeHandlerResponse([]byte(c.response), mode)
				if response != nil || err == nil {
					t.Fatalf("got response %v and error %v", response, err)
				}
				if got := formatError(err); got != c.want {
					t.Errorf("got  %s\nwant %s", got, c.want)
				}
			})
		}
	}
}

// formatError prefixes an error with its type.
func formatError(err error) string {
	if later, ok := errors.AsType[*hook.RetryAfterError](err); ok {
		return fmt.Sprintf("after %s: %s", later.After.Round(time.Second), err)
	}
	if _, ok := errors.AsType[*hook.TerminalError](err); ok {
		return "terminal: " + err.Error()
	}
	if _, ok := errors.AsType[*hook.MalformedError](err); ok {
		return "malformed: " + err.Error()
	}
	return err.Error()
}

// Errors stay short for any response.
func TestDecodeHandlerResponseErrorIsShort(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	for _, response := range []string{
		`{"` + long + `":1}`,
		`{"apply":[{"` + long + `":1,"object":` + pod + `}]}`,
		`{"delete":[{"apiVersion":"v1","kind":"Pod","selector":"` + long + ` in b"}]}`,
		`{"error":{"message":"` + long + `"}}`,
	} {
		for _, mode := range []codec.Decoding{codec.Strict, codec.Loose} {
			if _, err := codec.DecodeHandlerResponse([]byte(response), mode); len(fmt.Sprint(err)) > 1100 {
				t.Errorf("%s: error of %d bytes", mode, len(fmt.Sprint(err)))
			}
		}
	}
}

// Each file has a request and its expected wire form.
func TestHandlerRequestVectors(t *testing.T) {
	type vector struct {
		Request hook.HandlerRequest
		Wire    json.RawMessage
	}
	eachVector(t, "handler", func(t *testing.T, v vector) {
		checkWire(t, codec.AppendHandlerRequest([]byte("before "), &v.Request), append([]byte("before "), v.Wire...))
	})
}

// Encoding allocates the buffer once, regardless of object size. Sorting groups takes
// the other allocation.
func TestHandlerRequestAllocatesOnce(t *testing.T) {
	n := &hook.HandlerRequest{
		Object:  fmtObject("tom", 100_000),
		Changes: []hook.FieldChange{{Path: "spec.currency", From: json.RawMessage(`"USD"`), To: json.RawMessage(`"CHF"`)}},
		Owned:   []hook.Group{{APIVersion: "v1", Kind: "ConfigMap", Objects: []hook.Entry{{Namespace: "home", Name: "a", Object: fmtObject("a", 1000)}}}},
	}
	var wire []byte
	if allocations := testing.AllocsPerRun(10, func() { wire = codec.AppendHandlerRequest(nil, n) }); allocations > 2 {
		t.Errorf("%v allocations for %d bytes", allocations, len(wire))
	}
}
