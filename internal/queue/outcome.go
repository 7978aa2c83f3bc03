package queue

import "time"

// Outcome is what a worker reports of a key it was given. The zero value asks
// for a retry: a worker that came to no verdict has not settled anything.
type Outcome struct {
	settled bool
	after   time.Duration
}

// Settled says that the key needs nothing more; its failures are forgotten.
func Settled() Outcome { return Outcome{settled: true} }

// Retry says that the attempt failed; the key comes back after a delay that
// doubles with each failure.
func Retry() Outcome { return Outcome{} }

// RetryAfter says that whoever was asked named the time to come back. Only an
// edit or another hook runs the key before that time, and the number of failures
// stays as it is. A delay that is not positive means Retry: nobody is to spin
// because a server said "now".
func RetryAfter(delay time.Duration) Outcome { return Outcome{after: delay} }
