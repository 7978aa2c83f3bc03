package admission

import (
	"bytes"
	"fmt"
	"time"
)

// effort is what was made to keep one configuration as it is wanted.
type effort struct {
	// kept says that it is, and since when: the zero time if it never was otherwise,
	// having been created so.
	kept  bool
	since time.Time
	// made is what was tried last, undone how often somebody has changed it after it
	// was done, and undoneAt when they last did.
	made     []byte
	undone   int
	undoneAt time.Time
	told     bool
	// err is why it cannot be kept, delay how long is waited after a failure, and
	// next when something is to be tried again; zero if nothing is.
	err   error
	delay time.Duration
	next  time.Time
	at    slot
}

// patient is how often a change by others is undone at once.
const patient = 4

// calm is how long others must have left it alone to be forgiven.
const calm = 10 * time.Minute

// contested says that somebody else keeps changing it.
func (e *effort) contested() bool { return e.undone > patient }

// trouble is what is to be said of it.
func (e *effort) trouble() error {
	if e.err == nil && e.contested() {
		return fmt.Errorf("%s is changed by somebody else again and again, and put back: find out who by its managedFields, and stop them", e.at)
	}
	return e.err
}

// found notes that it is as wanted.
func (e *effort) found(w wish, now time.Time) {
	if !e.kept {
		e.kept, e.since = true, now
	}
	e.at, e.made, e.err, e.delay, e.next = w.slot, w.json, nil, 0, time.Time{}
	e.forgive(now)
	if e.undone > 0 {
		e.next = e.undoneAt.Add(calm)
	}
}

// forgive forgets what others did once they have left it alone for long enough.
func (e *effort) forgive(now time.Time) {
	if !now.Before(e.undoneAt.Add(calm)) {
		e.undone, e.told = 0, false
	}
}

// begin says whether it may be written now, which it is wanted to be. What is
// wanted anew may.
func (e *effort) begin(w wish, now time.Time) bool {
	e.at = w.slot
	again := bytes.Equal(e.made, w.json)
	if again && e.kept {
		e.forgive(now)
		e.undone++
		e.undoneAt, e.next = now, now
		if e.contested() {
			e.next = now.Add(min(minDelay<<min(e.undone-patient-1, 6), time.Minute))
		}
	}
	e.kept, e.made = false, w.json
	return !again || !now.Before(e.next)
}

// wrote notes that it was written, and whether the API server stored what was
// wanted.
func (e *effort) wrote(w wish, created, stored bool, now time.Time) {
	*e = effort{at: w.slot, made: w.json, kept: stored, since: now, undone: e.undone, undoneAt: e.undoneAt, told: e.told}
	if created {
		e.since = time.Time{}
	}
	if e.undone > 0 {
		e.next = e.undoneAt.Add(calm)
	}
	if !stored {
		e.failed(fmt.Errorf("%s is not stored as it was written: something changes it on its way, such as another webhook", w.slot), now)
	}
}

// failed notes why it is not as wanted, and says whether that is news.
func (e *effort) failed(err error, now time.Time) bool {
	news := said(err) != said(e.err)
	e.kept, e.err = false, err
	e.delay = min(max(2*e.delay, minDelay), maxDelay)
	e.next = now.Add(e.delay)
	return news
}
