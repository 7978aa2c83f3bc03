package cluster_test

import (
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/ui/cluster"
)

func TestMasked(t *testing.T) {
	for _, test := range []struct {
		name, object, want string
		hidden             int
	}{
		{"another kind", `{ "kind":"ConfigMap", "data":{"a":"b"}}`, `{ "kind":"ConfigMap", "data":{"a":"b"}}`, 0},
		{"another group's kind", `{"apiVersion":"x.org/v1","kind":"Secret","data":{"a":"b"}}`, `{"apiVersion":"x.org/v1","kind":"Secret","data":{"a":"b"}}`, 0},
		{"without values", `{"apiVersion":"v1","kind":"Secret","type":"Opaque"}`, `{"apiVersion":"v1","kind":"Secret","type":"Opaque"}`, 0},
		{
			"data", `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"a"},"type":"Opaque","data":{"user":"aHVudGVyMg==","empty":""},"stringData":{"pass":"hunter2"}}`,
			`{"apiVersion":"v1","data":{"empty":"*** (hidden)","user":"*** (hidden)"},"kind":"Secret","metadata":{"name":"a"},"stringData":{"pass":"*** (hidden)"},"type":"Opaque"}`, 3,
		},
		{
			"copies in annotations", `{"apiVersion":"v1","kind":"Secret","metadata":{"annotations":{"kubectl.kubernetes.io/last-applied-configuration":"hunter2","x.org/copy":"{\"a\":\"hunter2\"}","x.org/lines":"a\nhunter2","x.org/plain":"yes"}}}`,
			`{"apiVersion":"v1","kind":"Secret","metadata":{"annotations":{"kubectl.kubernetes.io/last-applied-configuration":"*** (hidden)","x.org/copy":"*** (hidden)","x.org/lines":"*** (hidden)","x.org/plain":"yes"}}}`, 3,
		},
		{
			"a list", `{"apiVersion":"v1","kind":"List","items":[{"apiVersion":"v1","kind":"Secret","data":{"a":"hunter2"}},{"kind":"ConfigMap","data":{"a":"b"}}]}`,
			`{"apiVersion":"v1","items":[{"apiVersion":"v1","data":{"a":"*** (hidden)"},"kind":"Secret"},{"data":{"a":"b"},"kind":"ConfigMap"}],"kind":"List"}`, 1,
		},
		{
			"a list of Secrets", `{"apiVersion":"v1","kind":"SecretList","items":[{"data":{"a":"hunter2"}}]}`,
			`{"apiVersion":"v1","items":[{"data":{"a":"*** (hidden)"}}],"kind":"SecretList"}`, 1,
		},
		{"malformed data", `{"apiVersion":"v1","kind":"Secret","data":"hunter2"}`, `{"apiVersion":"v1","data":"*** (hidden)","kind":"Secret"}`, 1},
		{"values that are no text", `{"apiVersion":"v1","kind":"Secret","data":{"a":["hunter2"]}}`, `{"apiVersion":"v1","data":{"a":"*** (hidden)"},"kind":"Secret"}`, 1},
		{"no JSON", `hunter2`, `"*** (hidden)"`, 1},
		{"nothing", `null`, `null`, 0},
	} {
		shown, hidden := cluster.Masked([]byte(test.object))
		if string(shown) != test.want || hidden != test.hidden {
			t.Errorf("%s: %d hidden\n\tgot  %s\n\twant %s", test.name, hidden, shown, test.want)
		}
		if test.hidden > 0 && strings.Contains(string(shown), "hunter2") {
			t.Errorf("%s: the value is shown", test.name)
		}
	}
}

func TestUnmasked(t *testing.T) {
	const live = `{"apiVersion":"v1","kind":"Secret","metadata":{"annotations":{"a/last-applied-configuration":"{}"}},"data":{"a":"QQ==","b":"Qg=="}}`
	for _, test := range []struct{ name, edited, want string }{
		{
			"one value changed, one left", `{"apiVersion":"v1","kind":"Secret","metadata":{"annotations":{"a/last-applied-configuration":"*** (hidden)"}},"data":{"a":"*** (hidden)","b":"WA=="}}`,
			`{"apiVersion":"v1","data":{"a":"QQ==","b":"WA=="},"kind":"Secret","metadata":{"annotations":{"a/last-applied-configuration":"{}"}}}`,
		},
		{"one taken away", `{"apiVersion":"v1","kind":"Secret","data":{"a":"*** (hidden)"}}`, `{"apiVersion":"v1","data":{"a":"QQ=="},"kind":"Secret"}`},
		{"one made", `{"apiVersion":"v1","kind":"Secret","data":{"new":"*** (hidden)"}}`, `new is "*** (hidden)", and there is no value to leave as it is`},
		{"another kind", `{"kind":"ConfigMap","data":{"a":"*** (hidden)"}}`, `{"kind":"ConfigMap","data":{"a":"*** (hidden)"}}`},
	} {
		got, err := cluster.Unmasked([]byte(test.edited), []byte(live))
		if err != nil {
			got = []byte(err.Error())
		}
		if string(got) != test.want {
			t.Errorf("%s:\n\tgot  %s\n\twant %s", test.name, got, test.want)
		}
	}
	shown, _ := cluster.Masked([]byte(live))
	back, err := cluster.Unmasked(shown, []byte(live))
	if err != nil || !strings.Contains(string(back), `"b":"Qg=="`) || strings.Contains(string(back), "hidden") {
		t.Errorf("there and back: %s, %v", back, err)
	}
	for _, bad := range []string{"", "{"} {
		if _, err := cluster.Unmasked([]byte(bad), []byte(live)); err == nil {
			t.Errorf("%q is read", bad)
		}
	}
}
