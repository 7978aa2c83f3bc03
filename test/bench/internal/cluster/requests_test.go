package cluster

import (
	"encoding/json"
	"maps"
	"slices"
	"testing"
)

func TestFlowSchemas(t *testing.T) {
	kinds := map[string]bool{}
	for i, f := range flows("things") {
		if kinds[f.kind] {
			t.Errorf("%s matches twice", f.kind)
		}
		kinds[f.kind] = true
		// The API server refuses to apply a set that holds a member twice.
		for _, set := range [][]string{f.verbs, f.resources} {
			if sorted := slices.Sorted(slices.Values(set)); len(slices.Compact(sorted)) != len(set) {
				t.Errorf("%s: something is named twice in %v", f.kind, set)
			}
		}
		body, err := flowSchema(f, 100+i)
		if err != nil || !json.Valid(body) {
			t.Errorf("%s: %s, %v", f.kind, body, err)
		}
	}
}

func TestRequests(t *testing.T) {
	got := Requests{Create: 5, Read: 2}.Sub(Requests{Create: 3})
	if want := (Requests{Create: 2, Read: 2}); !maps.Equal(got, want) || got.Total() != 4 {
		t.Errorf("got %v, %v in all", got, got.Total())
	}
}

func TestOnlyThisMachine(t *testing.T) {
	for server, here := range map[string]bool{
		"https://127.0.0.1:6443":    true,
		"https://[::1]:6443":        true,
		"https://localhost:6443":    true,
		"https://10.0.0.1:6443":     false,
		"https://api.example.com":   false,
		"https://127.0.0.1.example": false,
	} {
		if err := refuseRemote(server); (err == nil) != here {
			t.Errorf("%s: %v", server, err)
		}
	}
}
