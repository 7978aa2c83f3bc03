package redact

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"
)

func TestMayHaveSecret(t *testing.T) {
	for text, want := range map[string]bool{
		`{"kind":"Secret"}`: true, `{"kind":"S\u0065cret"}`: true, `{"kind":"ExternalSecret","of":"Secret"}`: true,
		`{"kind":"ExternalSecret"}`: false, `{"kind":"Secrets"}`: false, `{}`: false, ``: false,
	} {
		if got := MayHaveSecret(json.RawMessage(text)); got != want {
			t.Errorf("%s: %v", text, got)
		}
	}
}

// What is shown of Secrets has neither values nor tokens.
func TestShownSecrets(t *testing.T) {
	key := NewKey()
	const teams, secretKind = false, true
	for _, c := range []struct {
		name, text string
		about      bool
		want       string
	}{
		{"nothing", ``, teams, ``},
		{"no Secret, as it is", `{"b":1,"a":{"data":"x"}}`, teams, `{"b":1,"a":{"data":"x"}}`},
		{"a Secret among children",
			`{"children":{"Secret.v1":{"a":{"apiVersion":"v1","kind":"Secret","data":{"k":"djE=","l":null},"stringData":{"m":"v"},"metadata":{"annotations":{"kubectl.kubernetes.io/last-applied-configuration":"{}","x":"y"}}}}}}`, teams,
			`{"children":{"Secret.v1":{"a":{"apiVersion":"v1","data":{"k":"••••••","l":null},"kind":"Secret","metadata":{"annotations":{"kubectl.kubernetes.io/last-applied-configuration":"••••••","x":"y"}},"stringData":{"m":"••••••"}}}}}`},
		{"data that is no object", `{"apiVersion":"v1","kind":"Secret","data":"x"}`, teams, `{"apiVersion":"v1","data":"••••••","kind":"Secret"}`},
		{"a Secret of another group", `{"apiVersion":"example.org/v1","kind":"Secret","data":{"a":"b"}}`, teams, `{"apiVersion":"example.org/v1","kind":"Secret","data":{"a":"b"}}`},
		{"Setpoint's own annotations", `{"apiVersion":"v1","kind":"Secret","metadata":{"annotations":{"setpoint.dev/applied":"{}","metacontroller.k8s.io/last-applied-configuration":"{}"}}}`, teams,
			`{"apiVersion":"v1","kind":"Secret","metadata":{"annotations":{"metacontroller.k8s.io/last-applied-configuration":"••••••","setpoint.dev/applied":"••••••"}}}`},
		{"a kind that is escaped", `{"apiVersion":"v1","kind":"Secr\u0065t","data":{"a":"b"}}`, teams, `{"apiVersion":"v1","data":{"a":"••••••"},"kind":"Secret"}`},
		{"copies in annotations of any name", `{"apiVersion":"v1","kind":"Secret","metadata":{"annotations":{"short":"x","json":"{}","lines":"a\nb","long":"` + strings.Repeat("x", 65) + `","mark":"` + strings.Repeat("y", 64) + `"}}}`, teams,
			`{"apiVersion":"v1","kind":"Secret","metadata":{"annotations":{"json":"••••••","lines":"••••••","long":"••••••","mark":"` + strings.Repeat("y", 64) + `","short":"x"}}}`},
		{"a short annotation with a value", `{"apiVersion":"v1","kind":"Secret","data":{"k":"aHVudGVyMg=="},"metadata":{"annotations":{"decoded":"was hunter2","stored":"aHVudGVyMg==","team":"red"}}}`, teams,
			`{"apiVersion":"v1","data":{"k":"••••••"},"kind":"Secret","metadata":{"annotations":{"decoded":"••••••","stored":"••••••","team":"red"}}}`},
		{"numbers stay what they are", `{"kind":"Secret","apiVersion":"v1","n":12345678901234567890}`, teams, `{"apiVersion":"v1","kind":"Secret","n":12345678901234567890}`},
		{"a patch of a Secret", `{"patch":{"data":{"a":"b"},"metadata":{"labels":{"c":"d"}}}}`, secretKind, `{"patch":{"data":{"a":"••••••"},"metadata":{"labels":{"c":"d"}}}}`},
		{"a JSON patch of a Secret", `{"jsonPatch":[{"op":"add","path":"/data/a","value":"b"},{"op":"add","path":"/type","value":"Opaque"},{"op":"replace","path":"","value":{}}]}`, secretKind,
			`{"jsonPatch":[{"op":"add","path":"/data/a","value":"••••••"},{"op":"add","path":"/type","value":"Opaque"},{"op":"replace","path":"","value":"••••••"}]}`},
		{"what cannot be read", `{"Secret`, secretKind, `"••••••"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			var text json.RawMessage
			if c.text != "" {
				text = json.RawMessage(c.text)
			}
			values := New(key)
			values.See(c.about, func(visit func(json.RawMessage)) { visit(text) })
			text = values.JSON(text, c.about)
			if got := string(HideTokens(text, "••••••")); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

func TestNewTokens(t *testing.T) {
	key := NewKey()
	known, made := key.Token("known"), key.Token("made")
	encoded := base64.StdEncoding.EncodeToString([]byte(made))
	for name, c := range map[string]struct{ response, expected string }{
		"none":           {`{"a":"b"}`, ""},
		"of the request": {`{"a":"` + known + `"}`, ""},
		"made up":        {`{"a":"` + made + `","b":"` + made + `","c":"` + known + `"}`, made},
		"encoded":        {`{"a":"` + encoded + `"}`, encoded},
	} {
		request := base64.StdEncoding.EncodeToString([]byte(known))
		if tokens := strings.Join(NewTokens(request, c.response), " "); tokens != c.expected {
			t.Errorf("%s: %s", name, tokens)
		}
	}
}

// Members named like those of an object have values of Secrets as well.
func TestMaskMembersNamedMetadata(t *testing.T) {
	values := New(nil)
	values.See(false, func(visit func(json.RawMessage)) {
		visit(json.RawMessage(`{"kind":"Secret","stringData":{"a":"hunter2-very-secret"}}`))
	})
	text, err := json.Marshal(map[string]any{
		"apiVersion": "dapr.io/v1alpha1", "kind": "Component", "metadata": map[string]any{"name": "store"},
		"spec": map[string]any{
			"metadata": []any{map[string]any{"name": "password", "value": "hunter2-very-secret"}},
			"trigger":  map[string]any{"metadata": map[string]any{"connection": "postgres://u:hunter2-very-secret@db"}},
			"kind":     map[string]any{"value": "hunter2-very-secret"},
		},
	})
	masked := values.JSON(text, false)
	if err != nil || strings.Contains(string(masked), "hunter2") {
		t.Errorf("%s (%v)", masked, err)
	}
}
