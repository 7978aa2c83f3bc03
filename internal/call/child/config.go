package child

import (
	"time"

	"github.com/setpoint-dev/setpoint/internal/process"
)

// Config configures a Pool. Controller, Command and Limiter are required.
type Config struct {
	// Controller is the name of the controller in figures.
	Controller string
	// Owner is who shares a part of all children, such as a ServiceAccount, as errors name it; default the controller.
	Owner string
	// Command starts a child. The pool sets its streams.
	Command process.Command
	// Check is called before each start, which its error prevents; nil for no check.
	Check func() error
	// Begin has the first exchange with a new child, within BeginTimeout; nil for none.
	Begin        func(*Conn) error
	BeginTimeout time.Duration
	// Log receives the lines of the standard error, unless QuietStderr is set, and those of Conn.Log,
	// with the object of the call; nil discards them. It must be fast.
	Log         func(object []byte, line string)
	QuietStderr bool
	// Limiter is shared by all pools.
	Limiter *Limiter
	// StartAfter is how long a call waits for a child that is in use before it starts another; default 250 ms. A child
	// makes many calls in that time, if they are short, and each child takes memory.
	StartAfter time.Duration
}

// Call is a call's limits.
type Call struct {
	// Object is what the call is about, for log lines.
	Object []byte
	// Print gets the lines that are logged until the next call of the child begins; nil for none.
	Print func(line string)
	// Timeout is how long the exchange may take, and how long it may wait for a child before; at least
	// 10 s, since children have to start.
	Timeout time.Duration
	// MaxBytes limits what the child writes.
	MaxBytes int64
}

// leastWait is how long a call waits at least.
const leastWait = 10 * time.Second

func (c *Call) wait() time.Duration { return max(c.Timeout, leastWait) }

// Longest is how long a call takes at most.
func (c *Call) Longest() time.Duration { return c.wait() + c.Timeout }
