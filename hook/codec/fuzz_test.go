package codec_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/hook/codec"
)

// FuzzDecodeSyncResponse checks results and errors against the documented guarantees, in all
// wire forms.
func FuzzDecodeSyncResponse(f *testing.F) {
	for _, seed := range []string{
		``, `{}`, `null`, `{"children":[]}`, `{"children":[null]}`, `{"children":[` + pod + `,` + pod + `]}`,
		`{"status":{"a":[1,"\ud800"]},"children":null,"resyncAfterSeconds":1e400,"finalized":true}`,
		`{"childern":[]}`, `{"children":[{"kind":"Pod"`, "{\"\xff\":1}", `{"attachments":[` + pod + `],"labels":{"a":null,"b":"c"},"annotations":{"a b":""}}`,
		`{"attachments":[],"children":[],"message":"m","events":[{"reason":"A"}],"conditions":[{"type":"A","status":"True","reason":"B"}]}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, form := range controllerTypes {
			checkDecoder(t, data, func(data []byte, mode codec.Decoding) (*hook.Response, error) {
				return codec.DecodeSyncResponse(data, codec.Wire{ControllerType: form, Decoding: mode})
			}, func(mode codec.Decoding, resp *hook.Response) {
				checkAccepted(t, data, codec.Wire{ControllerType: form, Decoding: mode}, resp)
			})
		}
	})
}

// checkDecoder decodes data in all modes. Every error is a MalformedError without a response.
func checkDecoder[R any](
	t *testing.T, data []byte, decode func([]byte, codec.Decoding) (*R, error), accepted func(codec.Decoding, *R),
) {
	t.Helper()
	for _, mode := range modes {
		resp, err := decode(data, mode)
		if err == nil {
			accepted(mode, resp)
			continue
		}
		if malformed, is := errors.AsType[*hook.MalformedError](err); resp != nil || !is || malformed.Err == nil {
			t.Errorf("something beside the error %v", err)
		}
	}
}

// FuzzDecodeCustomizeResponse is FuzzDecodeSyncResponse for customize responses.
func FuzzDecodeCustomizeResponse(f *testing.F) {
	for _, seed := range []string{
		``, `{}`, `null`, `{"relatedResources":[]}`, `{"relatedResources":null}`, `{"relatedResource":[]}`, `{"relatedResources":[null]}`,
		`{"relatedResources":[{"apiVersion":"v1","resource":"pods","names":["a"],"namespace":"b"}]}`,
		`{"relatedResources":[{"apiVersion":"v1","resource":"pods","labelSelector":{"matchLabels":{"a":"1"},"matchExpressions":[{"key":"b","operator":"In","values":[]}]}}]}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		checkDecoder(t, data, codec.DecodeCustomizeResponse, func(mode codec.Decoding, resp *hook.CustomizeResponse) {
			checkAcceptedRules(t, data, mode, resp)
		})
	})
}

// FuzzDecodeHandlerResponse is FuzzDecodeSyncResponse for handler responses.
func FuzzDecodeHandlerResponse(f *testing.F) {
	for _, seed := range []string{
		``, `{}`, `null`, `{"patch":{"spec":{"a":null},"metadata":{"labels":{"a":null}}}}`, `{"patch":{"metadata":{"name":"a"}}}`, `{"aply":[]}`,
		`{"apply":[` + pod + `,{"object":` + pod + `,"unowned":true}],"status":{"a":1}}`, `{"apply":[{"object":1,"kind":"A"}]}`,
		`{"delete":[{"apiVersion":"v1","kind":"Pod","selector":"a in (b)","evict":true},{"apiVersion":"v1","kind":"Pod","name":"a"}]}`,
		`{"error":{"message":"m","permanent":true}}`, `{"error":{"message":"m"},"retryAfterSeconds":1e400}`,
		`{"progress":{ "a":[1] },"error":{"message":"m"},"status":{}}`, `{"applicable":false}`, `{"sideEffects":false}`, `{"finished":true,"events":[{"reason":"A"}]}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		checkDecoder(t, data, func(data []byte, mode codec.Decoding) (*hook.HandlerResponse, error) {
			response, err := codec.DecodeHandlerResponse(data, mode)
			if err == nil || hook.IsMalformed(err) {
				return response, err
			}
			var top struct{ Error struct{ Message string } } // Any other error comes from the field error.
			if json.Unmarshal(data, &top) != nil || response != nil || err.Error() == "" {
				t.Errorf("an error of its own from %s: %v", data, err)
			}
			return &hook.HandlerResponse{}, nil
		}, func(_ codec.Decoding, response *hook.HandlerResponse) {
			checkAcceptedHandlerResponse(t, data, response)
		})
	})
}

// checkAcceptedHandlerResponse compares a response with the result of encoding/json.
func checkAcceptedHandlerResponse(t *testing.T, data []byte, a *hook.HandlerResponse) {
	t.Helper()
	var top map[string]json.RawMessage
	if err := json.Unmarshal(data, &top); err != nil {
		t.Fatalf("accepted what is no JSON object: %v", err)
	}
	for name, count := range map[string]int{"apply": len(a.Apply), "delete": len(a.Delete)} {
		var items []json.RawMessage
		if err := json.Unmarshal(orNull(top[name]), &items); err != nil || len(items) != count {
			t.Errorf("%d to %s of %s", count, name, orNull(top[name]))
		}
	}
	for i, one := range a.Apply {
		checkIdentity(t, i, one.Object)
	}
	for _, one := range a.Delete {
		if one.APIVersion == "" || one.Kind == "" || (one.Name == "") == (strings.TrimSpace(one.Selector) == "") {
			t.Errorf("deletes %+v", one)
		}
	}
	var patch map[string]json.RawMessage
	if err := json.Unmarshal(orNull(a.Patch), &patch); err != nil {
		t.Errorf("patch %s: %v", a.Patch, err)
	}
	for _, name := range []string{"apiVersion", "kind", "status"} {
		if _, given := patch[name]; given {
			t.Errorf("patches %s", name)
		}
	}
	if a.RetryAfter < 0 {
		t.Errorf("retry after %v", a.RetryAfter)
	}
	if len(a.Progress) > hook.MaxProgress || a.Progress != nil && a.RetryAfter == 0 && a.Err == nil {
		t.Errorf("progress %s", a.Progress)
	}
	if a.Err != nil && (a.RetryAfter > 0 || len(a.Apply)+len(a.Delete) > 0) {
		t.Errorf("beside the error %v: %+v", a.Err, a)
	}
}

// checkAccepted compares a response with the result of encoding/json.
func checkAccepted(t *testing.T, data []byte, wire codec.Wire, resp *hook.Response) {
	t.Helper()
	children := listIn(t, data, wire.Decoding, map[hook.ControllerType]string{hook.Composite: "children", hook.Decorator: "attachments"}[wire.ControllerType])
	if len(children) != len(resp.Children) {
		t.Errorf("%d children, want %d", len(resp.Children), len(children))
	}
	for i, raw := range resp.Children {
		checkIdentity(t, i, raw)
	}
	if resp.Status != nil && (resp.Status[0] != '{' || !json.Valid(resp.Status)) {
		t.Errorf("status is no object: %s", resp.Status)
	}
	if resp.ResyncAfter < 0 {
		t.Errorf("resync after %v", resp.ResyncAfter)
	}
	if wire.ControllerType == hook.Composite && (resp.Labels != nil || resp.Annotations != nil) {
		t.Errorf("a composite set labels %v, annotations %v", resp.Labels, resp.Annotations)
	}
	for _, c := range resp.Conditions {
		if c.Type == "" || c.Status == "" || c.Reason == "" {
			t.Errorf("incomplete condition %+v", c)
		}
	}
}

// listIn returns the response's list and fails if the decoder should have rejected its
// absence.
func listIn(t *testing.T, data []byte, mode codec.Decoding, field string) []json.RawMessage {
	t.Helper()
	var top map[string]json.RawMessage
	if err := json.Unmarshal(data, &top); err != nil {
		t.Fatalf("accepted what is no JSON object: %v", err)
	}
	var items []json.RawMessage
	if err := json.Unmarshal(orNull(top[field]), &items); err != nil {
		t.Fatalf("accepted %s that is no list: %v", field, err)
	}
	if _, given := top[field]; !given && hasUnknownFields(top) && mode != codec.LooseOptional {
		t.Errorf("accepted a response without %s, but with a similar field, as empty: %s", field, data)
	}
	return items
}

// hasUnknownFields reports whether a response has fields unknown to all forms.
func hasUnknownFields(top map[string]json.RawMessage) bool {
	for name := range top {
		switch name {
		case "status", "resyncAfterSeconds", "finalized", "labels", "annotations", "events", "conditions", "message":
		default:
			return true
		}
	}
	return false
}

func checkAcceptedRules(t *testing.T, data []byte, mode codec.Decoding, resp *hook.CustomizeResponse) {
	t.Helper()
	if rules := listIn(t, data, mode, "relatedResources"); len(rules) != len(resp.Related) {
		t.Errorf("%d rules, want %d", len(resp.Related), len(rules))
	}
	for i, rule := range resp.Related {
		if rule.APIVersion == "" || rule.Resource == "" {
			t.Errorf("rule %d names no kind: %+v", i, rule)
		}
	}
}

func checkIdentity(t *testing.T, i int, raw json.RawMessage) {
	t.Helper()
	var child map[string]any
	if err := json.Unmarshal(raw, &child); err != nil {
		t.Fatalf("child %d: %v", i, err)
	}
	metadata, _ := child["metadata"].(map[string]any)
	for _, v := range []any{child["apiVersion"], child["kind"], metadata["name"]} {
		if s, ok := v.(string); !ok || s == "" {
			t.Errorf("child %d has no identity: %s", i, raw)
		}
	}
}

func orNull(raw json.RawMessage) json.RawMessage {
	if raw == nil {
		return json.RawMessage("null")
	}
	return raw
}

// FuzzDecodeReviewResponse is FuzzDecodeSyncResponse for review responses: only the field
// allowed allows a change.
func FuzzDecodeReviewResponse(f *testing.F) {
	for _, seed := range []string{
		``, `{}`, `null`, `{"allowed":true}`, `{"allowed":false,"message":"m","code":422}`, `{"alowed":true}`,
		`{"allowed":true,"patch":{"a":null},"warnings":["\ud800"]}`, `{"allowed":true,"jsonPatch":[ {"op":"add","path":"/a"}]}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		checkDecoder(t, data, codec.DecodeReviewResponse, func(_ codec.Decoding, v *hook.ReviewResponse) {
			if v.Denial == nil && !strings.Contains(string(data), "true") {
				t.Errorf("%q is allowed", data)
			}
			for _, raw := range []json.RawMessage{v.Object, v.Patch, v.JSONPatch} {
				if raw != nil && !json.Valid(raw) {
					t.Errorf("%q: %q is not JSON", data, raw)
				}
			}
		})
	})
}
