package trigger

import (
	"time"

	"github.com/setpoint-dev/setpoint/hook"
)

// Attempt counts the failures of one operation.
type Attempt struct {
	reason hook.Reason
	// digest identifies the latest input: another one is called for at once. It is that after the
	// response, and digestBefore that of the call, until the response is written.
	digest, digestBefore string
	// Count is the number of failures, since the time of the first. A call before due, which an
	// edit brings forward, is no retry: if it fails, it does not count.
	Count int
	Since time.Time
	due   time.Time
	// Next is the time of the next call, and delays the number of failures of this input.
	Next   time.Time
	delays int
	// requeued means that the handler did not fail but requested another call: at next, or
	// when the digest of the whole object differs from that after the run.
	requeued     bool
	objectDigest string
	// immediateRequeues is how often in a row the handler requested an immediate call.
	immediateRequeues int
}

// isFor reports whether a call continues an attempt. An attempt that only the record has is for any
// call.
func (a *Attempt) isFor(c Call) bool { return a.reason == c.Reason || a.isRestored() }

// isRestored reports whether an attempt is that of the record.
func (a *Attempt) isRestored() bool { return a.reason == "" && a.Count > 0 }

// hasInput reports whether a call is for the input of the latest call of an attempt.
func (a *Attempt) hasInput(c Call) bool {
	return a.reason == c.Reason && (a.digest == c.Digest || a.digestBefore == c.Digest) || a.isRestored()
}

// add adds a failure and reports whether it counts.
func (a *Attempt) add(c Call, now time.Time) (counts bool) {
	if !a.hasInput(c) {
		a.delays = 0
	}
	a.delays++
	if now.Before(a.due) {
		return false
	}
	if a.Count == 0 {
		a.Since = now
	}
	a.Count++
	return true
}

// Failed counts a failed write and sets the time of the retry.
func (a *Attempt) Failed(now time.Time, random func() float64) {
	a.retry(now, func(failures int) time.Duration { return Backoff(failures, FirstDelay, LongestDelay, random) })
}

// retry counts a failure and sets the time of the retry, which is later with each failure.
func (a *Attempt) retry(now time.Time, delay func(failures int) time.Duration) {
	if a.Count == 0 {
		a.Since = now
	}
	a.Count++
	a.Next = now.Add(delay(a.Count))
}

// The first and the maximum delay between attempts, unless a handler sets its own.
// UnreachableDelay replaces longestDelay without a connection: such a call costs little, and
// only a call finds out that the hook is back.
const (
	FirstDelay       = time.Second
	LongestDelay     = 5 * time.Minute
	UnreachableDelay = 15 * time.Second
)

// jitter is the maximum random extension of a delay, so that objects that failed together do
// not retry together. It never shortens a delay.
const jitter = 0.25

// Backoff returns the delay after one or more failures in a row. Random returns random numbers in [0,1).
func Backoff(failures int, first, longest time.Duration, random func() float64) time.Duration {
	delay := longest
	if doublings := failures - 1; doublings < 32 && first<<doublings < longest {
		delay = first << doublings
	}
	return delay + time.Duration(jitter*random()*float64(delay))
}
