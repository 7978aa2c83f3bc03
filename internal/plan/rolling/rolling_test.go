package rolling

import (
	"math/rand/v2"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/must"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// lastApplied is the annotation of the tests' planners.
const lastApplied = "example.org/last-applied"

func parse(t testing.TB, text string) *object.Object {
	t.Helper()
	return must.Get(object.Parse([]byte(text))).In(t)
}

func decode(t *testing.T, text []byte) any {
	t.Helper()
	return must.Get(object.Decode(text)).In(t)
}

// generator makes random events.
type generator struct{ *rand.Rand }

func (g generator) pick(values ...any) any { return values[g.IntN(len(values))] }

// seeded runs a property many times. A failure names the seed.
func seeded(t *testing.T, times int, property func(t *testing.T, g generator)) {
	t.Helper()
	start := rand.Uint64()
	for i := range uint64(times) {
		seed := start + i
		property(t, generator{rand.New(rand.NewPCG(seed, 0))})
		if t.Failed() {
			t.Fatalf("with seed %d", seed)
		}
	}
}
