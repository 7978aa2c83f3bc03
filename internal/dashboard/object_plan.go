package dashboard

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// makePlan makes a plan in the process, which uses the permissions of the process. So it is
// logged and limited per user.
func (req *request) makePlan(p *planPage, source inspect.Source) error {
	user := req.identity.User.Name
	if !req.plans.acquire(user) {
		req.w.Header().Set("Retry-After", retryAfterSeconds)
		return &problem{
			Status: http.StatusTooManyRequests, Title: "Too many plans",
			Text: fmt.Sprintf("Too many plans are running: the limit is %d per user and %d in total.", maxPlans, maxTotalPlans),
			Hint: "Try again in a moment.",
		}
	}
	defer req.plans.release(user)
	ctx, cancel := context.WithTimeout(req.context(), planTimeout)
	defer cancel()
	began := time.Now()
	plan, err := source.Plan(ctx, p.Controller, p.Ref, p.Edited)
	req.log.Info("planned for a dashboard user", "user", user, "controller", p.Controller, "process", source.Name(),
		"resource", p.Resource(), "namespace", p.Namespace, "name", p.Name, "took", time.Since(began).String(), "failed", err != nil)
	if err != nil {
		p.Fault, p.NotManaged = describeFault(err.Error(), inspect.FaultOf(err), planFailedTitle), errors.Is(err, failure.ErrNotFound)
		return nil
	}
	p.setPlan(&plan, req.usesOwnCredentials(), req.canRead)
	return nil
}

const planFailedTitle = "Plan failed"

// planner is a controller that may plan for an object, in its process.
type planner struct {
	source     inspect.Source
	controller inspect.Controller
}

// plannersOf returns the controllers of a kind that the user may see, each in one process, and
// the number of the others.
func (req *request) plannersOf(processes []processInfo, kind object.Kind) (all []planner, hidden int) {
	seen := map[string]bool{}
	for _, t := range leadersFirst(processes) {
		if t.Lost != nil {
			continue
		}
		for _, c := range t.Controllers {
			switch {
			case seen[c.Name] || c.AllReplicas || !c.Manages(kind):
				continue
			case req.canSee(&c):
				all = append(all, planner{t.Source, c})
			default:
				hidden++
			}
			seen[c.Name] = true
		}
	}
	return all, hidden
}

// leadersFirst sorts processes: a leader knows more than a standby.
func leadersFirst(processes []processInfo) []processInfo {
	return slices.SortedStableFunc(slices.Values(processes), func(a, b processInfo) int {
		if a.Process.IsStandby() == b.Process.IsStandby() {
			return 0
		}
		if a.Process.IsStandby() {
			return 1
		}
		return -1
	})
}
