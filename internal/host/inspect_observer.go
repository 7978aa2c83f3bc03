package host

import (
	"strconv"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/call/webhook"
	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/trace"
)

// observer hands what controllers tell of themselves to metrics, events and the Book.
type observer struct {
	*metrics
	*events
	book *inspect.Book
}

func (h *Host) observer() observer { return observer{h.metrics, h.events, h.book} }

// Ran takes the account of a run.
func (o observer) Ran(run trace.Run) {
	o.ran(&run)
	o.book.Note(run)
}

// Deleted takes the record of a deletion, which is no run and is not counted as one.
func (o observer) Deleted(deletion trace.Run) { o.book.Note(deletion) }

// Handled counts a call of a handler.
func (o observer) Handled(program, handler string, reason hook.Reason, took time.Duration, err error) {
	o.handled(program, handler, reason, took, err)
	o.book.Called(program, handler, inspect.Ended(err), took)
}

// called counts a call of a webhook. Those of handlers and reviews are counted by the
// names of these.
func (h *Host) called(program, address string, e webhook.Exchange) {
	h.endpoints.called(program, address, e)
	h.metrics.called(program, e)
	if e.Question != webhook.Handle && e.Question != webhook.Admit {
		h.book.Exchanged(program, string(e.Question), strconv.Itoa(e.Code), e.Duration)
	}
}
