package queue

import "time"

// Outcome is the result of a worker for a key. The zero value is Retry.
type Outcome struct {
	done    bool
	after   time.Duration
	backoff time.Duration
}

// NoRequeue ends the work on a key and resets its failures.
func NoRequeue() Outcome { return Outcome{done: true} }

// Retry retries the key after a delay that doubles with each failure.
func Retry() Outcome { return Outcome{} }

// RetryIn is Retry with a delay from [Queue.Backoff].
func RetryIn(backoff time.Duration) Outcome { return Outcome{backoff: backoff} }

// Delay returns the delay until the key comes back; zero if it is not known.
func (o Outcome) Delay() time.Duration { return max(o.after, o.backoff) }

// RetryAfter requeues the key after a delay that a hook or server has chosen. Only an edit or a new
// hook runs it earlier, and it does not count as a failure. A delay that is not positive means
// Retry, so that the key does not spin.
func RetryAfter(delay time.Duration) Outcome { return Outcome{after: delay} }
