package composite

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/queue"
	"github.com/setpoint-dev/setpoint/internal/redact"
)

// Values of a Secret as kind and as logicVersion leave in no other form: neither in small letters in the line that
// would declare the kind, nor in the state of the parent.
func TestSecretsAsKindAndVersion(t *testing.T) {
	const value = "N3w-Passw0rd-of-April"
	b := &statusHook{respond: func(int, *hook.Request) *hook.Response {
		return &hook.Response{LogicVersion: value, Children: []json.RawMessage{
			json.RawMessage(`{"apiVersion":"v1","kind":"` + value + `","metadata":{"name":"a"}}`),
			json.RawMessage(`{"apiVersion":"v1","kind":"Secret","metadata":{"name":"db"},"stringData":{"password":"` + value + `"}}`),
		}}
	}}
	shops := shopsOf(t, newCluster(t, newShop), Program{Sync: b, Lenient: true})
	for range 2 {
		shops.run(queue.Start)
	}
	events := strings.Join(shops.events, "\n")
	if strings.Contains(strings.ToLower(events), strings.ToLower(value)) || !strings.Contains(events, "resource: "+redact.Mask+"s}") {
		t.Errorf("the events tell the value, or no line to add: %q", shops.events)
	}
	for _, responded := range shops.tools.LogicVersions.parents {
		if responded.version != redact.Mask {
			t.Errorf("logicVersion %s", responded.version)
		}
	}
	if len(shops.tools.LogicVersions.parents) != 1 {
		t.Errorf("%d parents have a logicVersion", len(shops.tools.LogicVersions.parents))
	}
}
