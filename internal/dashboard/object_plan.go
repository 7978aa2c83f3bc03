package dashboard

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/setpoint-dev/setpoint/internal/dashboard/model"
)

// makePlan has the process make it, which has rights of its own: so it is logged whom it
// was for, and bounded how much of that goes on.
func (req *request) makePlan(p *planPage, source model.Source) error {
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
	plan, err := source.Plan(ctx, p.Controller, p.Ref)
	req.log.Info("planned for a dashboard user", "user", user, "controller", p.Controller, "process", source.Name(),
		"resource", p.Resource(), "namespace", p.Namespace, "name", p.Name, "took", time.Since(began).String(), "failed", err != nil)
	if err != nil {
		p.Fault = describeFault(err.Error(), model.FaultOf(err), "Plan failed")
		return nil
	}
	p.setPlan(&plan, req.usesOwnCredentials(), req.canRead)
	return nil
}
