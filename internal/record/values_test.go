package record_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/must"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/record"
	"github.com/setpoint-dev/setpoint/internal/redact"
)

const secretPod = `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"hunter2-secret","annotations":{"kubectl.kubernetes.io/last-applied-configuration":"{\"data\":{\"password\":\"aHVudGVyMg==\"}}"}},"data":{"password":"aHVudGVyMg==","pin":"MTI="}}`

// masked is a call with tokens, as a recording has it.
type masked struct {
	*redact.Values

	request, response string
}

func mask(key *redact.Key, call *record.Call, about object.Resource) masked {
	run := record.Run{Object: about.Ref("", ""), Steps: []record.Step{{Call: call}}}
	whole := run.Masked(key).Steps[0].Call
	return masked{run.Values(key), string(whole.Request), string(whole.Response)}
}

func syncCall(parent, child, response string) *record.Call {
	return &record.Call{
		Name: "sync", Received: record.Response{Sync: &hook.Response{Children: []json.RawMessage{json.RawMessage(response)}}},
		Sent: record.Request{Sync: &hook.Request{
			Controller: json.RawMessage(`{"kind":"CompositeController"}`), Parent: json.RawMessage(parent), ParentNamespace: "shop",
			Children: []hook.Group{{APIVersion: "v1", Kind: "Pod", Objects: []hook.Entry{{Namespace: "shop", Name: "a", Object: json.RawMessage(child)}}}},
		}},
	}
}

var team = object.Resource{Kind: "Team"}

// Each text has the value hunter2 in one form.
func TestSecretsAreMasked(t *testing.T) {
	key := redact.NewKey()
	for name, c := range map[string]struct{ child, response string }{
		"the same Secret":        {secretPod, secretPod},
		"one of the response":    {`{}`, `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"a"},"stringData":{"password":"hunter2"}}`},
		"a text that equals it":  {secretPod, `{"kind":"ConfigMap","data":{"password":"hunter2"}}`},
		"a text that has it":     {secretPod, `{"kind":"ConfigMap","data":{"url":"postgres://me:hunter2@db"}}`},
		"a text with its base64": {secretPod, `{"kind":"ConfigMap","data":{"encoded":"aHVudGVyMg=="}}`},
		"a short annotation":     {secretPod, `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"a","annotations":{"a":"hunter2"}}}`},
		"a label":                {secretPod, `{"kind":"Pod","metadata":{"name":"a","labels":{"a":"hunter2"}}}`},
	} {
		masked := mask(key, syncCall(`{"spec":{"old":"hunter2"}}`, c.child, c.response), team)
		all := masked.request + masked.response + masked.Text("error: hunter2 is weak")
		if left := strings.ReplaceAll(all, "hunter2-secret", ""); !masked.Found() || strings.Contains(left, "hunter2") || strings.Contains(left, "aHVudGVyMg") || !redact.HasTokens(all) {
			t.Errorf("%s: %s", name, all)
		}
		if strings.Count(all, key.Token("hunter2")) < 2 {
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
			must.Succeed(t, encoder.Encode(map[string]string{"password": used}))
			response, _ := json.Marshal(map[string]any{"kind": "ConfigMap", "data": map[string]string{"config": inner.String()}})
			masked := mask(redact.NewKey(), syncCall(`{}`, string(secret), string(response)), team)
			if strings.Contains(masked.response, "hunter2") {
				t.Errorf("%s is recorded as %s", response, masked.response)
			}
		}
	}
}

func TestNumbersAreMasked(t *testing.T) {
	const secret = `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"a"},"data":{"pin":"MTIzNDU2Nzg=","port":"NTQzMg=="}}`
	masked := mask(redact.NewKey(), syncCall(`{"spec":{"old":12345678}}`, secret,
		`{"kind":"Pod","pins":[12345678],"port":5432,"other":912345678}`), team)
	if all := masked.request + masked.response; strings.Contains(all, ":12345678") || strings.Contains(all, "[12345678") {
		t.Errorf("the masked call is %s", all)
	}
	if !strings.Contains(masked.response, `"port":5432`) || !strings.Contains(masked.response, `"other":912345678`) {
		t.Errorf("other numbers are replaced: %s", masked.response)
	}
}

func TestOrdinaryCallsStayAsTheyAre(t *testing.T) {
	call := syncCall(`{"b":1,"a":"\u003c"}`, `{}`, `{"c":1}`)
	masked := mask(redact.NewKey(), call, team)
	if masked.Found() || masked.request != string(call.Sent.JSON()) || masked.Text("a") != "a" {
		t.Errorf("got %s", masked.request)
	}
}

// A handler of Secrets gets, and returns, parts of them.
func TestPartsOfSecretsAreMasked(t *testing.T) {
	call := &record.Call{
		Err: errors.New("hunter2"),
		Sent: record.Request{Handler: &hook.HandlerRequest{Object: json.RawMessage(secretPod), Changes: []hook.FieldChange{
			{Path: "data.pin", From: json.RawMessage(`"MTM="`), To: json.RawMessage(`"MTI="`)},
			{Path: "metadata.labels.a", From: json.RawMessage(`"x"`)},
		}}},
		Received: record.Response{Handler: &hook.HandlerResponse{Patch: json.RawMessage(`{"data":{"pin":"MTQ="},"metadata":{"labels":{"b":"y"}}}`)}},
	}
	masked := mask(redact.NewKey(), call, object.Resource{Version: "v1", Kind: "Secret"})
	all := string(redact.HideTokens(json.RawMessage(masked.request+masked.response), "a token")) // Tokens may end like a value.
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
	key := redact.NewKey()
	masked := mask(key, syncCall(`{"url":"a:hunter2@b"}`, secretPod, secretPod), team)
	text := json.RawMessage(masked.request)
	if hidden := string(redact.HideTokens(text, "***")); redact.HasTokens(hidden) || !strings.Contains(hidden, `"password":"***"`) || !strings.Contains(hidden, "a:***@b") {
		t.Errorf("got %s", hidden)
	}
	if again := mask(redact.NewKey(), syncCall(`{}`, secretPod, secretPod), team); again.response == masked.response {
		t.Error("two recordings have the same tokens")
	}
}

// Values of one call are in no other call of the run, whether in a key, a name, a kind, a status, an event or an error.
func TestValuesOfARunAreMaskedEverywhere(t *testing.T) {
	const value = "horse-battery"
	secret := `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"s","namespace":"shop"},"stringData":{"horse-battery-key":"` + value + `"}}`
	for place, parent := range map[string]string{
		"a value": `{"spec":{"a":"horse-battery"}}`, "a key": `{"spec":{"horse-battery":1}}`, "a kind": `{"kind":"horse-battery"}`,
		"a name": `{"kind":"Team","metadata":{"name":"horse-battery","labels":{"horse-battery":"x"}}}`, "escapes": `{"a":"\u0068orse-batter\u0079"}`,
	} {
		sync := syncCall(parent, secret, `{"kind":"ConfigMap","metadata":{"name":"horse-battery"},"data":{"horse-battery":"686f7273652d62617474657279"}}`)
		sync.Sent.Sync.Children[0].Objects[0].Name = value
		sync.Received.Sync.Status = json.RawMessage(`{"note":"horse-battery"}`)
		sync.Received.Sync.Events = []hook.Event{{Message: value}}
		customize := &record.Call{
			Sent: record.Request{Customize: &hook.CustomizeRequest{Parent: json.RawMessage(parent)}}, Err: errors.New("not " + value),
			Received: record.Response{Customize: &hook.CustomizeResponse{Related: []hook.RelatedRule{{Names: []string{value}}}}},
		}
		run := record.Run{Object: team.Ref("", ""), Steps: []record.Step{{Call: customize}, {Call: sync}}}
		for _, step := range run.Masked(redact.NewKey()).Steps {
			all := string(step.Call.Request) + string(step.Call.Response) + step.Call.Error
			if !redact.HasTokens(all) || strings.Contains(all, value) || strings.Contains(all, "orse-batter") || strings.Contains(all, "686f72") {
				t.Errorf("%s: %s", place, all)
			}
		}
	}
}
