package host

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/admission"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// reasonAbandoned is that of the event at a webhook configuration that was removed because
// the process that registered it is gone.
const reasonAbandoned = "ProcessGone"

// collectAbandoned removes the webhook configurations of other processes that are gone,
// with the rights that this one has. Without them it leaves it to others.
func (h *Host) collectAbandoned(ctx context.Context) {
	if !h.mayCollect(ctx) {
		return
	}
	admission.NewCollector(admission.CollectorOptions{
		Store: h.store, Client: h.client, Own: h.presence.held, Unused: h.gate.unused, Log: h.log, OnRemoved: h.tellAbandoned,
	}).Run(ctx)
}

// mayCollect asks the API server for the rights, and again while it does not respond.
func (h *Host) mayCollect(ctx context.Context) bool {
	for {
		allowed, err := h.allowedAll(ctx, admission.CollectorPermissions())
		if err == nil {
			return allowed
		}
		h.log.Debug("the right to remove webhook configurations is not known", "error", failure.OneLine(err))
		select {
		case <-time.After(relisten):
		case <-ctx.Done():
			return false
		}
	}
}

func (h *Host) allowedAll(ctx context.Context, all []admission.Permission) (bool, error) {
	for _, n := range needsOfPermissions(all) {
		if allowed, err := h.allowed(ctx, n); err != nil || !allowed {
			return false, err
		}
	}
	return true, nil
}

func (h *Host) tellAbandoned(o *object.Object, lease admission.ObjectName) {
	h.events.TellAt(hook.EventAt{
		APIVersion: o.APIVersion(), Kind: o.Kind(), Name: o.Name(), UID: o.UID(),
		Event: hook.Event{Type: corev1.EventTypeWarning, Reason: reasonAbandoned, Message: admission.AbandonedMessage(o, lease)},
	})
}
