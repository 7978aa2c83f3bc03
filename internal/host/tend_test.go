package host

import "testing"

func TestGCPercent(t *testing.T) {
	for inUse, want := range map[uint64]int{
		0:         mostPercent,
		4 << 20:   mostPercent,
		16 << 20:  100,
		20 << 20:  75,
		64 << 20:  leastPercent,
		1 << 40:   leastPercent,
		1<<64 - 1: leastPercent,
	} {
		if got := gcPercent(inUse); got != want {
			t.Errorf("%d MiB in use: %d %%, want %d %%", inUse>>20, got, want)
		}
	}
}

func TestWhoRulesTheCollector(t *testing.T) {
	t.Setenv("GOGC", "")
	t.Setenv("GOMEMLIMIT", "")
	if ruled() {
		t.Error("nobody has said anything")
	}
	for _, name := range []string{"GOGC", "GOMEMLIMIT"} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(name, "100")
			if !ruled() {
				t.Error("is not heeded")
			}
		})
	}
}
