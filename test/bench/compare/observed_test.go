package main

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/must"
)

func show(t *testing.T, body string) *observedObject {
	t.Helper()
	object := new(observedObject)
	must.Succeed(t, json.Unmarshal([]byte(body), object))
	return object
}

func TestObserved(t *testing.T) {
	s := &observed{objects: map[string]*observedObject{}, configMaps: map[string]*observedObject{}, versions: map[string]int{}, changed: make(chan struct{}, 1)}
	object := show(t, `{"metadata":{"name":"rate-0000"},"status":{"conditions":[{"type":"Handled","status":"False"}]}}`)
	configMap := show(t, `{"kind":"ConfigMap","metadata":{"name":"rate-0000"},"data":{"rate":"1.1901"}}`)
	s.record(s.objects, object, false)
	s.record(s.configMaps, configMap, false)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for name, test := range map[string]struct {
		holds func() error
		want  bool
	}{
		"has the rate":     {s.haveRate(0, 1, initialCurrency), true},
		"has another rate": {s.haveRate(0, 1, changedCurrency), false},
		"is missing":       {s.haveRate(0, 2, initialCurrency), false},
		"is there":         {s.deleted(0, 1), false},
		"was never there":  {s.deleted(1, 2), true},
		"is unwell":        {s.hasFalseCondition(0), true},
		"is not there":     {s.hasFalseCondition(1), false},
	} {
		if err := s.wait(ended, test.holds); (err == nil) != test.want {
			t.Errorf("%s: %v", name, err)
		}
	}
	s.record(s.configMaps, configMap, true)
	s.record(s.objects, object, true)
	if err := s.deleted(0, 1)(); err != nil || s.changes("rate-0000") != 2 {
		t.Errorf("%v after %d changes", err, s.changes("rate-0000"))
	}
	broken := errors.New("watch ended")
	s.fail(broken)
	if err := s.wait(ended, s.deleted(0, 1)); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
}
