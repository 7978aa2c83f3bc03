package composite

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// Values of a Secret that only one of the versions selects are tokens in both responses.
func TestComparisonMasksSecretsOfBothVersions(t *testing.T) {
	parse := func(text string) *object.Object {
		o, err := object.Parse([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return o
	}
	secret := parse(`{"apiVersion":"v1","kind":"Secret","metadata":{"name":"db","namespace":"shop"},"data":{"password":"aHVudGVyMmh1bnRlcg=="}}`)
	selected := []hook.Group{{APIVersion: "v1", Kind: "Secret", Objects: []hook.Entry{{Namespace: "shop", Name: "db", Object: secret.JSON()}}}}
	response := &hook.Response{Children: []json.RawMessage{json.RawMessage(
		`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"db"},"data":{"password":"hunter2hunter"}}`)}}
	parent := parse(`{"apiVersion":"example.org/v1","kind":"Shop","metadata":{"name":"a","namespace":"shop","uid":"u-a"}}`)
	for name, c := range map[string]comparison{
		"the version before selects it": {relatedBefore: selected},
		"the new version selects it":    {request: hook.Request{Related: selected}},
	} {
		c.Controller = &Controller{program: Program{}}
		c.parent, c.before = parent, response
		compared, err := c.compareWith(response, nil)
		if err != nil {
			t.Fatal(err)
		}
		for side, text := range map[string]string{"before": fmt.Sprint(compared.Before), "after": fmt.Sprint(compared.After)} {
			if strings.Contains(text, "hunter2") {
				t.Errorf("%s: the response %s has the value: %s", name, side, text)
			}
		}
	}
}

// A shadow that begins again, after a rollout was taken back, has compared nothing yet.
func TestShadowBeginsAnew(t *testing.T) {
	v := &Versions{}
	of := shadowed{uid: "u-a"}
	v.SetShadow(true, 1)
	if !v.shadow.tryAcquire(of, time.Now()) {
		t.Fatal("not compared")
	}
	v.shadow.release(of, &shadowResult{failure: "refused", terminal: true})
	v.SetShadow(true, 1)
	if len(v.shadow.parents) != 1 {
		t.Error("the result is lost while the shadow goes on")
	}
	v.SetShadow(false, 1)
	v.SetShadow(true, 1)
	if len(v.shadow.parents) != 0 {
		t.Errorf("begins with %d results", len(v.shadow.parents))
	}
}
