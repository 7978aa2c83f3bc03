package queue

import (
	"cmp"
	"math/rand/v2"
	"time"
)

// jitter is the random part of each backoff, so that keys that failed together do not retry
// together.
const jitter = 0.25

// Options configure a Queue. The zero value works.
type Options struct {
	// BaseDelay is the delay after the first failure; 5 ms if zero.
	BaseDelay time.Duration
	// MaxDelay bounds the delay; 5 min if zero.
	MaxDelay time.Duration
	// EventDelay is the minimum time between a failure and a retry that an event moves forward; 1 s
	// if zero.
	EventDelay time.Duration
	// Random returns random numbers in [0,1) for jitter; math/rand/v2 if nil.
	Random func() float64
	// Now is the clock; time.Now if nil. A clock that stands still ends no delay.
	Now func() time.Time
}

func (o Options) withDefaults() Options {
	o.BaseDelay = cmp.Or(o.BaseDelay, 5*time.Millisecond)
	o.MaxDelay = cmp.Or(o.MaxDelay, 5*time.Minute)
	o.EventDelay = cmp.Or(o.EventDelay, time.Second)
	if o.Random == nil {
		o.Random = rand.Float64
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return o
}

// backoff returns the delay after a number of failures.
func (o *Options) backoff(before int) time.Duration {
	delay := o.MaxDelay
	if before < 63 && o.BaseDelay < o.MaxDelay>>before {
		delay = o.BaseDelay << before
	}
	return delay - time.Duration(jitter*o.Random()*float64(delay))
}
