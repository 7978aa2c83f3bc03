package load

import (
	"encoding/json"
	"github.com/setpoint-dev/setpoint/internal/must"
	"testing"
)

func TestObservation(t *testing.T) {
	tests := map[string]struct {
		body string
		gone bool
		want Observation
	}{
		"parent": {
			body: `{"kind":"Thing","metadata":{"name":"thing-00000","uid":"u"},"spec":{"value":"a"},"status":{"ready":1,"value":"b"}}`,
			want: Observation{Name: "thing-00000", UID: "u", Wanted: "a", Value: "b", Ready: 1},
		},
		"child": {
			body: `{"kind":"ConfigMap","metadata":{"name":"thing-00000-0"},"data":{"value":"c"}}`,
			gone: true,
			want: Observation{Name: "thing-00000-0", Child: true, Gone: true, Value: "c"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var seen object
			must.Succeed(t, json.Unmarshal([]byte(test.body), &seen))
			if got := observation(&seen, test.gone); got != test.want {
				t.Errorf("got %+v, want %+v", got, test.want)
			}
		})
	}
}
