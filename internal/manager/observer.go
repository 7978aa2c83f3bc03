package manager

import (
	"strconv"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/call/webhook"
	"github.com/setpoint-dev/setpoint/internal/dashboard/model"
	"github.com/setpoint-dev/setpoint/internal/record"
)

// observer hands what controllers tell of themselves to metrics, events and the Book.
type observer struct {
	*metrics
	*eventWriter
	history *model.History
}

func (m *Manager) observer() observer { return observer{m.metrics, m.events, m.history} }

// Ran takes the account of a run.
func (o observer) Ran(run record.Run) {
	o.observeRun(&run)
	o.history.Add(run)
}

// Deleted takes the record of a deletion, which is no run and is not counted as one.
func (o observer) Deleted(deletion record.Run) { o.history.Add(deletion) }

// Handled counts a call of a handler.
func (o observer) Handled(program, handler string, reason hook.Reason, took time.Duration, err error) {
	o.observeHandler(program, handler, reason, took, err)
	o.history.AddCall(program, handler, model.CallOutcome(err), took)
}

// called counts a call of a webhook. Those of handlers and reviews are counted by the
// names of these.
func (m *Manager) called(program, address string, e webhook.CallResult) {
	m.endpoints.recordCall(program, address, e)
	m.metrics.observeHookCall(program, e)
	if e.HookType != webhook.Handle && e.HookType != webhook.Admit {
		m.history.AddHookCall(program, string(e.HookType), strconv.Itoa(e.Code), e.Duration)
	}
}
