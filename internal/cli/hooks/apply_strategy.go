package hooks

import (
	"github.com/setpoint-dev/setpoint/internal/flags"
	"github.com/setpoint-dev/setpoint/internal/plan"
)

// Values of --apply-strategy.
const (
	merge  = "merge"
	server = "server-side"
)

// NewApplyStrategy returns --apply-strategy, which takes the words of Metacontroller too.
func NewApplyStrategy() *flags.Choice {
	return flags.OneOf(merge, server).WithAliases(map[string]string{"dynamic-apply": merge, "server-side-apply": server})
}

// ApplyStrategy returns the strategy that is chosen, as the manager names it.
func ApplyStrategy(c *flags.Choice) string {
	if c.Value == server {
		return string(plan.ServerSide)
	}
	return string(plan.Merge)
}
