package queue

import "time"

// Outcome is what a worker reports of a key it was given. The zero value asks
// for a retry: a worker that came to no verdict has not settled anything.
type Outcome struct {
	done    bool
	after   time.Duration
	backoff time.Duration
}

// NoRequeue says that the key needs nothing more; its failures are forgotten.
func NoRequeue() Outcome { return Outcome{done: true} }

// Retry says that the attempt failed; the key comes back after a delay that
// doubles with each failure.
func Retry() Outcome { return Outcome{} }

// RetryIn is Retry after a delay that is known beforehand: see [Queue.Backoff].
func RetryIn(backoff time.Duration) Outcome { return Outcome{backoff: backoff} }

// Delay is when the key comes back, as far as that is known; zero if not.
func (o Outcome) Delay() time.Duration { return max(o.after, o.backoff) }

// RetryAfter says that whoever was asked named the time to come back. Only an
// edit or another hook runs the key before that time, and the number of failures
// stays as it is. A delay that is not positive means Retry: nobody is to spin
// because a server said "now".
func RetryAfter(delay time.Duration) Outcome { return Outcome{after: delay} }
