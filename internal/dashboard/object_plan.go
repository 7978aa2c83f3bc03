package dashboard

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/setpoint-dev/setpoint/internal/dashboard/model"
)

// makePlan makes a plan in the process, which uses the permissions of the process. So it is
// logged and limited per user.
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
