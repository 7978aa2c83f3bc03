package inspect

import (
	"bytes"
	"encoding/json"
	"strconv"

	"github.com/setpoint-dev/setpoint/internal/record"
	"github.com/setpoint-dev/setpoint/internal/redact"
)

// withoutSecrets returns a run without the values of Secrets that it has seen. Tokens of the key stand for them, but in what
// identifies the run.
func withoutSecrets(rendered Run, run *record.Run, key *redact.Key) Run {
	values, secret := run.Values(key), run.Resource.GroupKind().IsSecret()
	masked := redact.EachText(rendered, values.Text, func(raw json.RawMessage) json.RawMessage { return values.JSON(raw, secret) })
	masked.Controller, masked.Object, masked.Outcome = rendered.Controller, rendered.Object, rendered.Outcome
	return masked
}

// hideTokens replaces the tokens in a run by the mask.
func hideTokens(run Run) Run {
	hide := func(raw json.RawMessage) json.RawMessage { return redact.HideTokens(raw, redact.Mask) }
	return redact.EachText(run, func(text string) string { return string(hide(json.RawMessage(text))) }, hide)
}

// typeOf returns the apiVersion and kind of an object.
func typeOf(members map[string]any) (apiVersion, kind string) {
	apiVersion, _ = members["apiVersion"].(string)
	kind, _ = members["kind"].(string)
	return apiVersion, kind
}

// transformJSON applies a function to every value, outer values first. Invalid JSON is
// masked.
func transformJSON(text json.RawMessage, edit func(any) any) json.RawMessage {
	reader := json.NewDecoder(bytes.NewReader(text))
	reader.UseNumber()
	var value any
	if reader.Decode(&value) != nil {
		return json.RawMessage(strconv.Quote(redact.Mask))
	}
	return marshal(transformValue(value, edit))
}

func transformValue(value any, edit func(any) any) any {
	value = edit(value)
	switch inner := value.(type) {
	case map[string]any:
		for name, each := range inner {
			inner[name] = transformValue(each, edit)
		}
	case []any:
		for i, each := range inner {
			inner[i] = transformValue(each, edit)
		}
	}
	return value
}
