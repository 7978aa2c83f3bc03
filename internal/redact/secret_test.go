package redact_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/must"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/redact"
)

func TestSecret(t *testing.T) {
	for _, test := range []struct {
		name, object, want string
		hidden             int
	}{
		{"another kind", `{"data":{"a":"b"},"kind":"ConfigMap"}`, `{"data":{"a":"b"},"kind":"ConfigMap"}`, 0},
		{"another group's kind", `{"apiVersion":"x.org/v1","data":{"a":"b"},"kind":"Secret"}`, `{"apiVersion":"x.org/v1","data":{"a":"b"},"kind":"Secret"}`, 0},
		{"without values", `{"apiVersion":"v1","kind":"Secret","type":"Opaque"}`, `{"apiVersion":"v1","kind":"Secret","type":"Opaque"}`, 0},
		{
			"values", `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"a"},"type":"Opaque","data":{"user":"aHVudGVyMg==","empty":""},"stringData":{"pass":"hunter2"}}`,
			`{"apiVersion":"v1","data":{"empty":"***","user":"***"},"kind":"Secret","metadata":{"name":"a"},"stringData":{"pass":"***"},"type":"Opaque"}`, 3,
		},
		{
			"copies in annotations", `{"apiVersion":"v1","kind":"Secret","metadata":{"annotations":{"kubectl.kubernetes.io/last-applied-configuration":"hunter2","x.org/copy":"{\"a\":\"hunter2\"}","x.org/lines":"a\nhunter2","x.org/plain":"yes"}}}`,
			`{"apiVersion":"v1","kind":"Secret","metadata":{"annotations":{"kubectl.kubernetes.io/last-applied-configuration":"***","x.org/copy":"***","x.org/lines":"***","x.org/plain":"yes"}}}`, 3,
		},
		{
			"long annotations", `{"apiVersion":"v1","kind":"Secret","metadata":{"annotations":{"x.org/copy":"` + strings.Repeat("aHVudGVyMg", 7) + `","x.org/list":["hunter2"],"x.org/short":"` + strings.Repeat("a", 64) + `"}}}`,
			`{"apiVersion":"v1","kind":"Secret","metadata":{"annotations":{"x.org/copy":"***","x.org/list":"***","x.org/short":"` + strings.Repeat("a", 64) + `"}}}`, 2,
		},
		{"of no version", `{"kind":"Secret","data":{"a":"hunter2"}}`, `{"data":{"a":"***"},"kind":"Secret"}`, 1},
		{"malformed values", `{"apiVersion":"v1","kind":"Secret","data":"hunter2"}`, `{"apiVersion":"v1","data":"***","kind":"Secret"}`, 1},
		{"values that are no text", `{"apiVersion":"v1","kind":"Secret","data":{"a":["hunter2"]}}`, `{"apiVersion":"v1","data":{"a":"***"},"kind":"Secret"}`, 1},
		{"nothing", `null`, `null`, 0},
	} {
		var members map[string]any
		must.Succeed(t, json.Unmarshal([]byte(test.object), &members))
		hidden := 0
		if object.IsSecret(members) {
			hidden = redact.Secret(members, "***")
		}
		shown, _ := json.Marshal(members)
		if string(shown) != test.want || hidden != test.hidden {
			t.Errorf("%s: %d hidden\n\tgot  %s\n\twant %s", test.name, hidden, shown, test.want)
		}
		if test.hidden > 0 && strings.Contains(string(shown), "hunter2") {
			t.Errorf("%s: the value is shown", test.name)
		}
	}
}
