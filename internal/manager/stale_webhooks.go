package manager

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/admission/register"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/manager/rbac"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// reasonProcessGone: Setpoint removed a webhook configuration because the process that registered
// it is gone.
const reasonProcessGone = "ProcessGone"

// removeStaleWebhooks removes webhook configurations of processes that are gone, if Setpoint
// has the permissions.
func (m *Manager) removeStaleWebhooks(ctx context.Context) {
	if !m.canRemoveStaleWebhooks(ctx) {
		return
	}
	register.NewCollector(register.CollectorOptions{
		Store: m.store, Client: m.client, OwnLease: m.processLease.Held, Unused: m.webhooks.Unused, Log: m.log,
		OnRemoved: m.recordStaleWebhook,
	}).Run(ctx)
}

// accessRetryInterval is the delay before another access review.
const accessRetryInterval = 5 * time.Second

// canRemoveStaleWebhooks reviews access, and retries while the API server is unreachable.
func (m *Manager) canRemoveStaleWebhooks(ctx context.Context) (allowed bool) {
	err := wait.PollUntilContextCancel(ctx, accessRetryInterval, true, func(ctx context.Context) (bool, error) {
		missing, err := rbac.Missing(ctx, m.client, rbac.ForWebhooks(register.CollectorPermissions()))
		if err != nil {
			m.log.Debug("access to webhook configurations not reviewed; retrying", "error", failure.OneLine(err))
			return false, nil
		}
		allowed = len(missing) == 0
		return true, nil
	})
	return err == nil && allowed
}

func (m *Manager) recordStaleWebhook(o *object.Object, lease types.NamespacedName) {
	m.events.EventAt(hook.ObjectEvent{
		APIVersion: o.APIVersion(), Kind: o.Kind(), Name: o.Name(), UID: o.UID(),
		Event: hook.Event{Type: corev1.EventTypeWarning, Reason: reasonProcessGone, Message: register.AbandonedMessage(o, lease)},
	})
}
