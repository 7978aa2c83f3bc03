package recording

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/record"
)

const secretPod = `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"hunter2-secret","annotations":{"kubectl.kubernetes.io/last-applied-configuration":"{\"data\":{\"password\":\"aHVudGVyMg==\"}}"}},"data":{"password":"aHVudGVyMg==","pin":"MTI="}}`

// Each text has the value hunter2 in one form.
func TestSecretsAreMasked(t *testing.T) {
	m := NewMasker()
	for name, c := range map[string]struct{ child, response string }{
		"the same Secret":        {secretPod, secretPod},
		"one of the response":    {`{}`, `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"a"},"stringData":{"password":"hunter2"}}`},
		"a text that equals it":  {secretPod, `{"kind":"ConfigMap","data":{"password":"hunter2"}}`},
		"a text that has it":     {secretPod, `{"kind":"ConfigMap","data":{"url":"postgres://me:hunter2@db"}}`},
		"a text with its base64": {secretPod, `{"kind":"ConfigMap","data":{"encoded":"aHVudGVyMg=="}}`},
		"a short annotation":     {secretPod, `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"a","annotations":{"a":"hunter2"}}}`},
		"a label":                {secretPod, `{"kind":"Pod","metadata":{"name":"a","labels":{"a":"hunter2"}}}`},
	} {
		masked := m.Mask(syncCall(`{"spec":{"old":"hunter2"}}`, c.child, c.response), object.Resource{Kind: "Team"})
		all := string(masked.Request.JSON()) + string(masked.Response) + masked.Text("error: hunter2 is weak")
		if left := strings.ReplaceAll(all, "hunter2-secret", ""); !masked.HasSecrets || strings.Contains(left, "hunter2") || strings.Contains(left, "aHVudGVyMg") || !HasTokens(all) {
			t.Errorf("%s: %s", name, all)
		}
		if strings.Count(all, m.key.token("hunter2")) < 2 {
			t.Errorf("%s: values that were equal are not: %s", name, all)
		}
	}
}

// A value stays hidden in JSON within a text, whichever characters its encoder escapes.
func TestValuesInJSONTextsAreMasked(t *testing.T) {
	const value = "hunter2\"<a>&\\b\nlast\n"
	secret, _ := json.Marshal(map[string]any{"apiVersion": "v1", "kind": "Secret", "data": map[string][]byte{"password": []byte(value)}})
	for _, used := range []string{value, strings.TrimSpace(value)} {
		for _, escapeHTML := range []bool{true, false} {
			var inner strings.Builder
			encoder := json.NewEncoder(&inner)
			encoder.SetEscapeHTML(escapeHTML)
			if err := encoder.Encode(map[string]string{"password": used}); err != nil {
				t.Fatal(err)
			}
			response, _ := json.Marshal(map[string]any{"kind": "ConfigMap", "data": map[string]string{"config": inner.String()}})
			masked := NewMasker().Mask(syncCall(`{}`, string(secret), string(response)), object.Resource{Kind: "Team"})
			if strings.Contains(string(masked.Response), "hunter2") {
				t.Errorf("%s is recorded as %s", response, masked.Response)
			}
		}
	}
}

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

func TestNumbersAreMasked(t *testing.T) {
	const secret = `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"a"},"data":{"pin":"MTIzNDU2Nzg=","port":"NTQzMg=="}}`
	masked := NewMasker().Mask(syncCall(`{"spec":{"old":12345678}}`, secret,
		`{"kind":"Pod","pins":[12345678],"port":5432,"other":912345678}`), object.Resource{Kind: "Team"})
	if all := string(masked.Request.JSON()) + string(masked.Response); strings.Contains(all, ":12345678") || strings.Contains(all, "[12345678") {
		t.Errorf("the masked call is %s", all)
	}
	if !strings.Contains(string(masked.Response), `"port":5432`) || !strings.Contains(string(masked.Response), `"other":912345678`) {
		t.Errorf("other numbers are replaced: %s", masked.Response)
	}
}

func TestNamesAreKept(t *testing.T) {
	const pod = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"hunter2-a","namespace":"hunter2"},"spec":{"pin":"12"}}`
	masked := NewMasker().Mask(syncCall(`{}`, secretPod, pod), object.Resource{Kind: "Team"})
	if !json.Valid(masked.Response) || !strings.Contains(string(masked.Response), `"name":"hunter2-a","namespace":"hunter2"},"spec":{"pin":"12"}`) {
		t.Errorf("got %s", masked.Response)
	}
}

func TestOrdinaryCallsStayAsTheyAre(t *testing.T) {
	call := syncCall(`{"b":1,"a":"\u003c"}`, `{}`, `{"c":1}`)
	masked := NewMasker().Mask(call, object.Resource{Kind: "Team"})
	if masked.HasSecrets || string(masked.Request.JSON()) != string(call.Request.JSON()) || masked.Text("a") != "a" {
		t.Errorf("got %s", masked.Request.JSON())
	}
}

// A handler of Secrets gets, and returns, parts of them.
func TestPartsOfSecretsAreMasked(t *testing.T) {
	call := &record.Call{
		Err: errors.New("hunter2"),
		Request: record.Request{Handler: &hook.HandlerRequest{Object: json.RawMessage(secretPod), Changes: []hook.FieldChange{
			{Path: "data.pin", From: json.RawMessage(`"MTM="`), To: json.RawMessage(`"MTI="`)},
			{Path: "metadata.labels.a", From: json.RawMessage(`"x"`)},
		}}},
		Response: record.Response{Handler: &hook.HandlerResponse{Patch: json.RawMessage(`{"data":{"pin":"MTQ="},"metadata":{"labels":{"b":"y"}}}`)}},
	}
	masked := NewMasker().Mask(call, object.Resource{Version: "v1", Kind: "Secret"})
	all := string(HideTokens(append(masked.Request.JSON(), masked.Response...), "a token")) // Tokens may end like a value.
	for _, value := range []string{"MTM=", "MTI=", "MTQ=", "aHVudGVyMg"} {
		if strings.Contains(all, value) {
			t.Errorf("%s is in %s", value, all)
		}
	}
	if !strings.Contains(all, `"from":"x"`) || !strings.Contains(all, `{"b":"y"}`) {
		t.Errorf("labels are masked: %s", all)
	}
}

func TestTokens(t *testing.T) {
	m := NewMasker()
	masked := m.Mask(syncCall(`{"url":"a:hunter2@b"}`, secretPod, secretPod), object.Resource{Kind: "Team"})
	text := masked.Request.JSON()
	other := OtherTokens(text)
	if string(other) == string(text) || string(OtherTokens(other)) != string(text) || !HasTokens(string(other)) {
		t.Errorf("got %s for %s", other, text)
	}
	if hidden := string(HideTokens(text, "***")); HasTokens(hidden) || !strings.Contains(hidden, `"password":"***"`) || !strings.Contains(hidden, "a:***@b") {
		t.Errorf("got %s", hidden)
	}
	if again := NewMasker().Mask(syncCall(`{}`, secretPod, secretPod), object.Resource{Kind: "Team"}); string(again.Response) == string(masked.Response) {
		t.Error("two recordings have the same tokens")
	}
}

// What is shown of Secrets has neither values nor tokens.
func TestShownSecrets(t *testing.T) {
	key := newTokenKey()
	teams, secretKind := object.Resource{Group: "example.org", Version: "v1", Kind: "Team"}, object.Resource{Version: "v1", Kind: "Secret"}
	for _, c := range []struct {
		name, text string
		about      object.Resource
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
			s := &secrets{key: &key, found: c.about.GroupKind().IsSecret(), about: c.about.GroupKind().IsSecret()}
			s.collect(text)
			if s.found {
				s.build()
				text = s.mask(text)
			}
			if got := string(HideTokens(text, "••••••")); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

func TestNewTokens(t *testing.T) {
	key := newTokenKey()
	known, made := key.token("known"), key.token("made")
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
	key := newTokenKey()
	s := &secrets{key: &key, tokens: map[string]string{"hunter2-very-secret": "token"}}
	s.build()
	masked, err := json.Marshal(s.replace(map[string]any{
		"apiVersion": "dapr.io/v1alpha1", "kind": "Component", "metadata": map[string]any{"name": "store"},
		"spec": map[string]any{
			"metadata": []any{map[string]any{"name": "password", "value": "hunter2-very-secret"}},
			"trigger":  map[string]any{"metadata": map[string]any{"connection": "postgres://u:hunter2-very-secret@db"}},
			"kind":     map[string]any{"value": "hunter2-very-secret"},
		},
	}))
	if err != nil || strings.Contains(string(masked), "hunter2") {
		t.Errorf("%s (%v)", masked, err)
	}
}
