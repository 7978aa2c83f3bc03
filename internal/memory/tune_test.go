package memory

import "testing"

func TestGCPercent(t *testing.T) {
	for live, want := range map[uint64]int{
		0:         maxGCPercent,
		4 << 20:   maxGCPercent,
		10 << 20:  100,
		12 << 20:  75,
		64 << 20:  minGCPercent,
		1 << 40:   minGCPercent,
		1<<64 - 1: minGCPercent,
	} {
		if got := gcPercent(live); got != want {
			t.Errorf("live heap of %d MiB: %d %%, want %d %%", live>>20, got, want)
		}
	}
}

func TestGCSetByUser(t *testing.T) {
	t.Setenv("GOGC", "")
	t.Setenv("GOMEMLIMIT", "")
	if gcSetByUser() {
		t.Error("set without a variable")
	}
	for _, name := range []string{"GOGC", "GOMEMLIMIT"} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(name, "100")
			if !gcSetByUser() {
				t.Error("not set with " + name)
			}
		})
	}
}
