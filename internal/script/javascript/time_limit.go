package javascript

import (
	"time"

	"modernc.org/libquickjs"

	"github.com/setpoint-dev/setpoint/internal/script"
)

// interrupt is called now and then while code runs, and ends it if the result is not 0. The code
// cannot catch that.
func (m *vm) interrupt() int32 {
	l := &m.limit
	if l.locating || l.deadline.IsZero() || time.Now().Before(l.deadline) {
		return 0
	}
	if !l.exceeded {
		l.exceeded, l.locating = true, true
		l.stack = m.currentStack()
		l.locating = false
	}
	return 1
}

// currentStack is read before the exception of the engine, which has the place before a loop rather
// than one in it.
func (m *vm) currentStack() string {
	m.memory.reserve = roomForErrors
	defer func() { m.memory.reserve = 0 }()
	stack := libquickjs.XJS_Call(m.tls, m.context, m.where, undefined, 0, 0)
	text, known := m.rawText(stack)
	if !known {
		libquickjs.XJS_GetException(m.tls, m.context)
	}
	return string(text)
}

// outOfTime is the error of code that was interrupted, whatever became of that: a promise that nothing
// awaits may have it.
func (m *vm) outOfTime() error {
	e := &script.Error{Message: "interrupted", Limit: script.TimeLimit}
	m.addStack(e, m.limit.stack)
	return e
}
