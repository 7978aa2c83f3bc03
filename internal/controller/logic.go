package controller

import "github.com/setpoint-dev/setpoint/hook"

// Logic is one version of the hooks of a controller.
type Logic struct {
	// Version names it; empty if the controller has no rollouts.
	Version string
	// Moved means that a rollout has moved the object to it from the version before.
	Moved          bool
	Sync, Finalize hook.Hook
	Customize      hook.Customizer
}
