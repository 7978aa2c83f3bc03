package manager

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/admission"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// reasonProcessGone: Setpoint removed a webhook configuration because the process that registered
// it is gone.
const reasonProcessGone = "ProcessGone"

// removeStaleWebhooks removes the webhook configurations of other processes that are gone,
// with the rights that this one has. Without them it leaves it to others.
func (h *Manager) removeStaleWebhooks(ctx context.Context) {
	if !h.canRemoveStaleWebhooks(ctx) {
		return
	}
	admission.NewCollector(admission.CollectorOptions{
		Store: h.store, Client: h.client, OwnLease: h.processLease.held, Unused: h.webhooks.unused, Log: h.log, OnRemoved: h.recordStaleWebhook,
	}).Run(ctx)
}

// canRemoveStaleWebhooks asks the API server for the rights, and again while it does not respond.
func (h *Manager) canRemoveStaleWebhooks(ctx context.Context) bool {
	for {
		allowed, err := h.allAllowed(ctx, admission.CollectorPermissions())
		if err == nil {
			return allowed
		}
		h.log.Debug("the right to remove webhook configurations is not known", "error", failure.OneLine(err))
		select {
		case <-time.After(listenRetryInterval):
		case <-ctx.Done():
			return false
		}
	}
}

func (h *Manager) allAllowed(ctx context.Context, all []admission.Permission) (bool, error) {
	for _, n := range convertPermissions(all) {
		if allowed, err := h.allowed(ctx, n); err != nil || !allowed {
			return false, err
		}
	}
	return true, nil
}

func (h *Manager) recordStaleWebhook(o *object.Object, lease admission.ObjectName) {
	h.events.EventAt(hook.ObjectEvent{
		APIVersion: o.APIVersion(), Kind: o.Kind(), Name: o.Name(), UID: o.UID(),
		Event: hook.Event{Type: corev1.EventTypeWarning, Reason: reasonProcessGone, Message: admission.AbandonedMessage(o, lease)},
	})
}
