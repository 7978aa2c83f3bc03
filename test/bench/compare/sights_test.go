package main

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
)

func show(t *testing.T, body string) *seen {
	t.Helper()
	object := new(seen)
	if err := json.Unmarshal([]byte(body), object); err != nil {
		t.Fatal(err)
	}
	return object
}

func TestSights(t *testing.T) {
	s := &sights{objects: map[string]*seen{}, configMaps: map[string]*seen{}, versions: map[string]int{}, news: make(chan struct{}, 1)}
	object := show(t, `{"metadata":{"name":"rate-0000"},"status":{"conditions":[{"type":"Handled","status":"False"}]}}`)
	configMap := show(t, `{"kind":"ConfigMap","metadata":{"name":"rate-0000"},"data":{"rate":"1.1901"}}`)
	s.note(s.objects, object, false)
	s.note(s.configMaps, configMap, false)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for name, test := range map[string]struct {
		holds func() error
		want  bool
	}{
		"has the rate":     {s.right(0, 1, atFirst), true},
		"has another rate": {s.right(0, 1, changed), false},
		"is missing":       {s.right(0, 2, atFirst), false},
		"is there":         {s.gone(0, 1), false},
		"was never there":  {s.gone(1, 2), true},
		"is unwell":        {s.unwell(0), true},
		"is not there":     {s.unwell(1), false},
	} {
		if err := s.wait(ended, test.holds); (err == nil) != test.want {
			t.Errorf("%s: %v", name, err)
		}
	}
	s.note(s.configMaps, configMap, true)
	s.note(s.objects, object, true)
	if err := s.gone(0, 1)(); err != nil || s.changes("rate-0000") != 2 {
		t.Errorf("%v after %d changes", err, s.changes("rate-0000"))
	}
	broken := errors.New("watch ended")
	s.fail(broken)
	if err := s.wait(ended, s.gone(0, 1)); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
}
