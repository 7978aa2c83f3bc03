package ui

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/setpoint-dev/setpoint/internal/inspect"
)

// makePlan has the process make it, which has rights of its own: so it is logged whom it
// was for, and bounded how much of that goes on.
func (v *visit) makePlan(p *planPage, source inspect.Source) error {
	user := v.visitor.User.Name
	if !v.plans.open(user) {
		v.w.Header().Set("Retry-After", retryPage)
		return &problem{
			Status: http.StatusTooManyRequests, Title: "Too many plans",
			Text: fmt.Sprintf("Other plans are being made: %d at a time for one visitor, and %d for all.", maxPlans, maxAllPlans),
			Hint: "Try again in a moment.",
		}
	}
	defer v.plans.close(user)
	ctx, cancel := context.WithTimeout(v.context(), planTime)
	defer cancel()
	began := time.Now()
	plan, err := source.Plan(ctx, p.Controller, p.Ref)
	v.log.Info("planned for a visitor of the window", "user", user, "controller", p.Controller, "process", source.Name(),
		"resource", p.Resource(), "namespace", p.Namespace, "name", p.Name, "took", time.Since(began).String(), "failed", err != nil)
	if err != nil {
		p.Fault = explain(err.Error(), inspect.FaultOf(err), "There is no plan")
		return nil
	}
	p.show(&plan, v.own(), v.reads)
	return nil
}
