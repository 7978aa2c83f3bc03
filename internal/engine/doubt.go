package engine

import (
	"context"
	"fmt"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
)

// doubtPause is the time between two calls with one request where two at once responded
// the same: a time in whole seconds differs after that.
const doubtPause = 1100 * time.Millisecond

// doubt calls a hook that leads to write after write once more with the same request. If
// the responses differ, the run has a whim, which names where.
func (r *run) doubt(ctx context.Context, asked hook.Hook, parent *object.Object) error {
	if r.memory.wrote {
		r.memory.churn.Wrote(r.intent(), r.tools.Now())
		r.memory.wrote = false
	}
	doubts, later := r.memory.churn.Doubts(r.intent(), r.tools.Now())
	if !doubts {
		return nil
	}
	if later {
		pause := time.NewTimer(doubtPause)
		defer pause.Stop()
		select {
		case <-pause.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	again, err := r.call(ctx, asked, r.request(parent), r.latestRevision())
	if err != nil {
		return hookFailure(r.asks(), err)
	}
	where := plan.Differ(r.reply, again)
	r.memory.churn.Judge(where != "")
	if where == "" {
		return nil
	}
	r.whim = failure.New(ReasonUnsettled, fmt.Errorf("%s hook: two responses to the same request differ in %s; "+
		"leave out what is random or a time, or make it of the object", r.asks(), where))
	return nil
}

// intent changes when a user changes the parent. A decorator sets labels itself.
func (r *run) intent() uint64 {
	if r.program.decorates() {
		return uint64(r.stored.Generation()) + 1
	}
	return r.stored.Intent()
}

// unrestful says that a failure must not be retried at each event: its own writes, or
// those of another client, are what brings them.
func unrestful(err error) bool {
	reason := reasonOf(err)
	return reason == ReasonUnsettled || reason == ReasonFlapping
}

// backoffOf is the time to the next attempt after so many that failed in a row.
func backoffOf(failed int) time.Duration { return min(maxDelay, time.Second<<min(max(failed-1, 0), 6)) }
