package plan

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
)

// Fault M13: a hook is checked less often each time its responses are the same, and at every call
// once they differed.
func TestDeterminismCheck(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	var c DeterminismCheck
	if due, _ := c.Due(1, now); due {
		t.Error("doubted before anything was written")
	}
	var doubted []int
	for call := range 50 {
		now = now.Add(time.Second)
		c.RecordWrite(1, now)
		if due, delayed := c.Due(1, now); due {
			if delayed != (len(doubted) > 0) {
				t.Errorf("call %d: later %v", call+1, delayed)
			}
			doubted = append(doubted, call+1)
			c.RecordResult(false)
		}
	}
	if len(doubted) != 4 || doubted[0] != 5 || doubted[3] != 40 {
		t.Errorf("doubted after %v", doubted)
	}
	c.RecordResult(true)
	if due, _ := c.Due(1, now); !due {
		t.Error("not doubted after a difference was found")
	}
	if due, _ := c.Due(2, now); due {
		t.Error("doubted although the parent was changed")
	}
	if due, _ := c.Due(1, now.Add(2*flappingWindow)); due {
		t.Error("doubted after a long rest")
	}
}

func TestResponseDifference(t *testing.T) {
	child := func(name, data string) json.RawMessage {
		return json.RawMessage(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"` + name + `","namespace":"n"},"spec":` + data + `}`)
	}
	text := "x"
	of := func(children ...json.RawMessage) hook.Response { return hook.Response{Children: children} }
	for name, c := range map[string]struct {
		first, second hook.Response
		want          string
	}{
		"same":               {of(child("a", `{"cpu":"1"}`)), of(child("a", `{"cpu":"1"}`)), ""},
		"a quantity":         {of(child("a", `{"cpu":"1"}`)), of(child("a", `{"cpu":"1000m"}`)), ""},
		"in another order":   {of(child("a", `{}`), child("b", `{}`)), of(child("b", `{}`), child("a", `{}`)), ""},
		"behind a quantity":  {of(child("a", `{"cpu":"1","z":[1]}`)), of(child("a", `{"cpu":"1000m","z":[2]}`)), "Pod n/a: spec.z[0]"},
		"another name":       {of(child("a", `{}`)), of(child("b", `{}`)), "Pod n/a: only in one response"},
		"one more":           {of(), of(child("b", `{}`)), "the number of children"},
		"the status":         {hook.Response{Status: json.RawMessage(`{"at":1}`)}, hook.Response{Status: json.RawMessage(`{"at":2}`)}, "status.at"},
		"a status":           {hook.Response{}, hook.Response{Status: json.RawMessage(`{"at":2}`)}, "status.at"},
		"a label":            {hook.Response{}, hook.Response{Labels: map[string]*string{"a": &text}}, "labels.a"},
		"a label removed":    {hook.Response{Labels: map[string]*string{"a": nil}}, hook.Response{Labels: map[string]*string{"a": &text}}, "labels.a"},
		"both have the same": {hook.Response{Labels: map[string]*string{"a": &text}}, hook.Response{Labels: map[string]*string{"a": &text}}, ""},
	} {
		if got := ResponseDifference(&c.first, &c.second); got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}
