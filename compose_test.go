package setpoint

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/must"
	"github.com/setpoint-dev/setpoint/internal/sdk"
)

// rated is a type that does not know all of its objects.
type rated struct {
	Status struct {
		Rate string `json:"rate,omitempty"`
	} `json:"status"`
}

func TestStatusOfAParentIsWhole(t *testing.T) {
	for name, c := range map[string]struct{ status, rate, want string }{
		"kept":              {`,"status":{"more":[1],"rate":"1"}`, "1", `{"more":[1],"rate":"1"}`},
		"changed":           {`,"status":{"more":[1],"rate":"1"}`, "2", `{"more":[1],"rate":"2"}`},
		"removed":           {`,"status":{"more":[1],"rate":"1"}`, "", `{"more":[1]}`},
		"the first":         {``, "2", `{"rate":"2"}`},
		"the first of null": {`,"status":null`, "2", `{"rate":"2"}`},
		"none":              {``, "", ``},
		"none of null":      {`,"status":null`, "", ``},
	} {
		app := New("rates")
		rates := Compose[rated](app, Kind("example.com/v1", "Rate"))
		rates.Sync(func(_ context.Context, f *ComposeContext[rated]) error {
			f.Parent.Status.Rate = c.rate
			return nil
		})
		parent := json.RawMessage(`{"apiVersion":"example.com/v1","kind":"Rate","metadata":{"name":"eur"}` + c.status + `}`)
		sync := must.Get(sdk.Of(app).Hook("sync")).In(t)
		got := must.Get(sync.Call(t.Context(), &hook.Request{Parent: parent})).In(t)
		if string(got.Status) != c.want {
			t.Errorf("%s: got %s, want %s", name, got.Status, c.want)
		}
	}
}
