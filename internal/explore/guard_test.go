package explore_test

import (
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/explore"
	"github.com/setpoint-dev/setpoint/internal/explore/world"
)

// broken is an environment with a defect.
type broken struct{ world.Environment }

func (broken) Moves(world.Stored) []world.Move { panic("a defect") }

// A defect of ours is the error of one exploration, on whichever goroutine it is met.
func TestDefectsAreErrors(t *testing.T) {
	t.Parallel()
	options := system(t, func(thing, *hook.Request) *hook.Response { return &hook.Response{} })
	options.Environment = broken{options.Environment}
	for _, workers := range []int{1, 4} {
		options.Workers = workers
		report, err := explore.Explore(t.Context(), options)
		if err == nil || !strings.Contains(err.Error(), "internal error in Setpoint: a defect") || report != nil {
			t.Errorf("%d workers: %v, %v", workers, report, err)
		}
	}
}
