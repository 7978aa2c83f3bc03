package model

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"

	"github.com/setpoint-dev/setpoint/internal/recording"
)

// mask replaces values of Secrets.
const mask = "••••••"

// quotingPhrases are phrases of the API server and of admission webhooks after which they
// may quote a Secret.
var quotingPhrases = [...]string{
	": Invalid value", ": Unsupported value", ": Duplicate value", "cannot be handled as a Secret",
	"denied the request", "denied request", ": expected", ", got",
}

// redactQuotes cuts an error about a Secret before it may quote a value. The path of an
// invalid field stays.
func redactQuotes(text string) string {
	end := len(text)
	for _, phrase := range quotingPhrases {
		if at := strings.Index(text, phrase); at >= 0 {
			end = min(end, at+len(phrase))
		}
	}
	const invalid = " is invalid: "
	if at := strings.Index(text, invalid); at >= 0 {
		path, _, _ := strings.Cut(text[at+len(invalid):], ": ")
		end = min(end, at+len(invalid)+len(path))
	}
	if end == len(text) {
		return text
	}
	return text[:end] + ": " + mask
}

// masker masks what the history keeps. Its tokens are shown as the mask.
var masker = recording.NewMasker()

// hideTokens replaces the tokens in requests and responses by the mask.
func (r *Run) hideTokens() {
	for i := range r.Steps {
		if call := r.Steps[i].Call; call != nil {
			call.Request, call.Response = recording.HideTokens(call.Request, mask), recording.HideTokens(call.Response, mask)
		}
	}
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
		return json.RawMessage(strconv.Quote(mask))
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
