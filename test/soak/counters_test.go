package soak

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// counters counts what happened, by what it was.
type counters struct {
	mu     sync.Mutex
	counts map[string]int
}

func newCounters() *counters { return &counters{counts: map[string]int{}} }

func (c *counters) add(what string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.counts[what]++
}

// report is the report, as Markdown.
func (s *soakRun) report(took time.Duration) string {
	s.tally.mu.Lock()
	defer s.tally.mu.Unlock()
	var out strings.Builder
	fmt.Fprintf(&out, "Seed %d, faults for %s, %d replicas", s.seed, *faultDuration, len(s.replicas))
	if took > 0 {
		fmt.Fprintf(&out, "; all right %.1f s after the last of them", took.Seconds())
	}
	out.WriteString(".\n\n| what happened | times |\n|---|---:|\n")
	for _, what := range slices.Sorted(maps.Keys(s.tally.counts)) {
		fmt.Fprintf(&out, "| %s | %d |\n", what, s.tally.counts[what])
	}
	return out.String()
}

// firstOf shows the first of many.
func firstOf(all []string) string {
	const shown = 12
	text := strings.Join(all[:min(shown, len(all))], "\n")
	if more := len(all) - shown; more > 0 {
		text += fmt.Sprintf("\n... and %d more", more)
	}
	return text
}
