package object_test

import (
	"testing"

	"github.com/setpoint-dev/setpoint/internal/object"
)

func TestEqualScalars(t *testing.T) {
	for _, c := range []struct {
		a, b any
		same bool
	}{
		{int64(1), int64(1), true},
		{int64(1), int64(2), false},
		{int64(1), 1.0, true},
		{int64(1), 1.5, false},
		{1.5, 1.5, true},
		{1.5, 2.5, false},
		// Both are the same float64.
		{int64(9007199254740992), int64(9007199254740993), false},
		{int64(-9007199254740992), int64(-9007199254740993), false},
		{int64(9007199254740993), int64(9007199254740993), true},
		{int64(9223372036854775807), int64(9223372036854775806), false},
		{int64(9007199254740992), 9007199254740992.0, true},
		{int64(1), "1", false},
		{int64(0), nil, false},
		{int64(1), true, false},
		{"a", "a", true},
		{"a", "b", false},
		{nil, nil, true},
		{"a", map[string]any{}, false},
		{nil, []any{}, false},
	} {
		if object.EqualScalars(c.a, c.b) != c.same || object.EqualScalars(c.b, c.a) != c.same {
			t.Errorf("%#v and %#v: the test expects %v", c.a, c.b, c.same)
		}
	}
}
