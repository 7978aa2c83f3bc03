package model

import (
	"testing"

	"github.com/setpoint-dev/setpoint/internal/redact"
)

func TestFindReplaced(t *testing.T) {
	for _, test := range []struct {
		value any
		want  string
	}{
		{map[string]any{"spec": map[string]any{"size": 3, "hidden": true, "list": []any{"a"}}}, ""},
		{map[string]any{"spec": map[string]any{"children": []any{"a", map[string]any{"kind": "Secret", "stringData": map[string]any{"k": redact.Mask}}}}}, "spec.children[1].stringData.k"},
		{map[string]any{"spec": map[string]any{"url": "https://me:" + redact.Mask + "@example.org"}}, "spec.url"},
		{map[string]any{"spec": map[string]any{"template": map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "hidden": redacted}}}, "spec.template"},
	} {
		if at := FindReplaced(test.value); at != test.want {
			t.Errorf("%v: %q, not %q", test.value, at, test.want)
		}
	}
}
