package manager

import (
	"strconv"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/call/webhook"
	"github.com/setpoint-dev/setpoint/internal/dashboard/model"
	"github.com/setpoint-dev/setpoint/internal/manager/serving"
	"github.com/setpoint-dev/setpoint/internal/record"
)

// observer passes what controllers report to metrics, events and the history.
type observer struct {
	*serving.Metrics
	*eventWriter
	history *model.History
}

func (m *Manager) observer() observer { return observer{m.metrics, m.events, m.history} }

// Ran records a run.
func (o observer) Ran(run record.Run) {
	o.ObserveRun(&run)
	o.history.Add(run)
}

// Deleted records a deletion, which is not counted as a run.
func (o observer) Deleted(deletion record.Run) { o.history.Add(deletion) }

// Handled counts a handler call.
func (o observer) Handled(program, handler string, reason hook.Reason, took time.Duration, err error) {
	o.ObserveHandler(program, handler, reason, took, err)
	o.history.AddCall(program, handler, model.CallOutcome(err), took)
}

// called counts a webhook call. Calls of handlers and reviews are counted by their names
// instead.
func (m *Manager) called(program, address string, e webhook.CallResult) {
	m.endpoints.recordCall(program, address, e)
	m.metrics.ObserveHookCall(program, e)
	if e.HookType != webhook.Handle && e.HookType != webhook.Admit {
		m.history.AddHookCall(program, string(e.HookType), strconv.Itoa(e.Code), e.Duration)
	}
}
