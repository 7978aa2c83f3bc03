package contender

import "testing"

func TestIsReady(t *testing.T) {
	tests := map[string]struct {
		body string
		want bool
	}{
		"no status":        {`{"metadata":{"generation":2}}`, false},
		"another is true":  {`{"metadata":{"generation":2},"status":{"conditions":[{"type":"Accepted","status":"True","observedGeneration":2}]}}`, false},
		"of an older spec": {`{"metadata":{"generation":2},"status":{"conditions":[{"type":"Ready","status":"True","observedGeneration":1}]}}`, false},
		"false":            {`{"metadata":{"generation":2},"status":{"conditions":[{"type":"Ready","status":"False","observedGeneration":2}]}}`, false},
		"ready":            {`{"metadata":{"generation":2},"status":{"conditions":[{"type":"Ready","status":"True","observedGeneration":2}]}}`, true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got, err := IsReady([]byte(test.body)); err != nil || got != test.want {
				t.Errorf("got %v, %v", got, err)
			}
		})
	}
	if _, err := IsReady([]byte("no")); err == nil {
		t.Error("not JSON: no error")
	}
}

func TestNewKnowsItsContenders(t *testing.T) {
	for _, name := range Names() {
		c, err := New(name, Config{})
		if err != nil || c.Name() != name {
			t.Errorf("%s: %v, %v", name, c, err)
		}
		if _, writes := c.(Writer); writes != (name == Writes) {
			t.Errorf("%s writes: %v", name, writes)
		}
		if _, runs := c.(Process); runs == (name == Writes) {
			t.Errorf("%s runs as a process: %v", name, runs)
		}
	}
	if _, err := New("nobody", Config{}); err == nil {
		t.Error("no error for an unknown name")
	}
}
