package model

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"sync"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/record"
)

// minSecretValue is the length from which a value of a Secret is looked for in texts; shorter
// ones are part of ordinary words.
const minSecretValue = 4

// maskReviewTexts masks what the texts of a webhook quote from the Secret that it reviewed.
func (r *Run) maskReviewTexts(run *record.Run) {
	for i := range r.Steps {
		call := r.Steps[i].Call
		if call == nil || call.Review == nil {
			continue
		}
		hide := secretMasker(run.Steps[i].Call.Request.Review)
		for _, text := range []*string{&r.Error, &call.Error, &call.Review.Message, &call.Review.Reason} {
			*text = hide(*text)
		}
		warnings := make([]string, len(call.Review.Warnings))
		for k, warning := range call.Review.Warnings {
			warnings[k] = hide(warning)
		}
		call.Review.Warnings = warnings
		for _, fault := range []**Fault{&r.Fault, &call.Fault} {
			if *fault = clonePtr(*fault); *fault != nil {
				(*fault).Body = hide((*fault).Body)
			}
		}
		if call.Response != nil {
			call.Response = transformJSON(call.Response, func(value any) any {
				if text, is := value.(string); is {
					return hide(text)
				}
				return value
			})
		}
	}
}

// secretMasker returns a function that masks the values of a reviewed Secret in a text, as they
// are stored and as they are used.
func secretMasker(r *hook.ReviewRequest) func(string) string {
	replacer := sync.OnceValue(func() *strings.Replacer { return strings.NewReplacer(secretValues(r)...) })
	return func(text string) string {
		if text == "" {
			return "" // Most reviews say nothing.
		}
		return replacer().Replace(text)
	}
}

// secretValues returns the values of a reviewed Secret, each followed by the mask.
func secretValues(r *hook.ReviewRequest) (pairs []string) {
	add := func(value string) {
		if len(value) >= minSecretValue {
			pairs = append(pairs, value, mask)
		}
	}
	for _, text := range []json.RawMessage{r.Object, r.OldObject} {
		var secret map[string]any
		if json.Unmarshal(text, &secret) != nil {
			continue
		}
		object.ReplaceSecretValues(secret, func(_ string, value any) string {
			stored, _ := value.(string)
			add(stored)
			if used, err := base64.StdEncoding.DecodeString(stored); err == nil {
				add(string(used))
			}
			return ""
		})
	}
	return pairs
}
