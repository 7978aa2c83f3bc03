package hook_test

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/setpoint-dev/setpoint/hook"
)

// FuzzDecodeResponse holds every answer, or refusal, to what the package
// promises, whatever the reply.
func FuzzDecodeResponse(f *testing.F) {
	for _, seed := range []string{
		``, `{}`, `null`, `{"children":[]}`, `{"children":[null]}`, `{"children":[` + pod + `,` + pod + `]}`,
		`{"status":{"a":[1,"\ud800"]},"children":null,"resyncAfterSeconds":1e400,"finalized":true}`,
		`{"childern":[]}`, `{"children":[{"kind":"Pod"`, "{\"\xff\":1}",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, mode := range modes {
			resp, err := hook.DecodeResponse(data, hook.Wire{Decoding: mode})
			if err != nil {
				refused(t, resp, err)
				continue
			}
			accepted(t, data, resp)
		}
	})
}

func refused(t *testing.T, resp *hook.Response, err error) {
	t.Helper()
	var malformed *hook.MalformedError
	if resp != nil || !errors.As(err, &malformed) || malformed.Err == nil {
		t.Errorf("got %v and error %v", resp, err)
	}
}

// accepted checks a response against what encoding/json reads.
func accepted(t *testing.T, data []byte, resp *hook.Response) {
	t.Helper()
	var top map[string]json.RawMessage
	if err := json.Unmarshal(data, &top); err != nil {
		t.Fatalf("accepted what is no JSON object: %v", err)
	}
	var children []json.RawMessage
	if err := json.Unmarshal(orNull(top["children"]), &children); err != nil || len(children) != len(resp.Children) {
		t.Errorf("%d children, want %d (%v)", len(resp.Children), len(children), err)
	}
	for i, raw := range resp.Children {
		identified(t, i, raw)
	}
	if resp.Status != nil && (resp.Status[0] != '{' || !json.Valid(resp.Status)) {
		t.Errorf("status is no object: %s", resp.Status)
	}
	if resp.ResyncAfter < 0 {
		t.Errorf("resync after %v", resp.ResyncAfter)
	}
}

func identified(t *testing.T, i int, raw json.RawMessage) {
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
