package rollout

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unique"
)

const (
	// SettleTime is how long all responses have one logicVersion before it counts: replicas of a hook are replaced
	// one after the other.
	SettleTime = 10 * time.Second
	// maxChanges is how many changes count in an hour.
	maxChanges = 5
	// mixedTime is how long responses may have different versions until that is a problem.
	mixedTime = 10 * time.Minute
)

// Responses follows the logicVersion of responses, of one version of the spec. The zero value knows none.
type Responses struct {
	// current is the version that counts. latest is that of all responses since latestSince.
	current, latest string
	latestSince     time.Time
	// changes are when the current version changed.
	changes []time.Time
	// mixedSince is when responses began to have different versions; zero while they do not.
	mixedSince time.Time
	// noneSince is when responses began to have no version; zero while they have.
	noneSince time.Time
}

// Restore sets the version that counted before a restart.
func (r *Responses) Restore(version string) { r.current = strings.Clone(version) }

// Current returns the version that counts; empty for none.
func (r *Responses) Current() string { return r.current }

// Add adds a response. It returns its version, in a string of its own. An empty version is none.
func (r *Responses) Add(version string, now time.Time) string {
	if version == "" {
		if r.noneSince.IsZero() {
			r.noneSince = now
		}
		return ""
	}
	r.noneSince = time.Time{}
	if version == r.latest {
		return r.latest
	}
	version = unique.Make(version).Value() // Replicas with two versions respond in turns.
	if r.latest != "" && r.mixedSince.IsZero() {
		r.mixedSince = now
	}
	r.latest, r.latestSince = version, now
	return version
}

// Settle makes the version of the latest responses the one that counts, if no other was seen for a while. It
// returns the one before if that changed.
func (r *Responses) Settle(now time.Time) (before string, changed bool) {
	if r.latest == "" || now.Sub(r.latestSince) < SettleTime {
		return "", false
	}
	r.changes = slices.DeleteFunc(r.changes, func(at time.Time) bool { return now.Sub(at) > time.Hour })
	before = r.current
	switch {
	case r.latest == before:
	case before == "":
		r.current = r.latest // The first one is no change.
	case len(r.changes) >= maxChanges:
		return "", false
	default:
		r.current, changed = r.latest, true
		r.changes = append(r.changes, now)
	}
	r.mixedSince = time.Time{}
	return before, changed
}

// Settled reports whether all responses have had the current version for a while.
func (r *Responses) Settled(now time.Time) bool {
	return r.latest != "" && r.latest == r.current && now.Sub(r.latestSince) >= SettleTime
}

// HasNone reports whether there is a version that counts, and all responses for a while have had none. That may be a
// hook which has one for some parents only.
func (r *Responses) HasNone(now time.Time) bool {
	return r.current != "" && !r.noneSince.IsZero() && now.Sub(r.noneSince) >= SettleTime
}

// Problem returns why versions in responses cannot be followed; empty if they can. The text does not change with
// each response.
func (r *Responses) Problem(now time.Time) string {
	const remedy = "return the same logicVersion for all objects until the logic changes"
	switch {
	case len(r.changes) >= maxChanges && r.latest != r.current:
		return fmt.Sprintf("logicVersion has changed %d times within an hour, and objects are not reconciled because of further changes: ",
			maxChanges) + remedy
	case !r.mixedSince.IsZero() && now.Sub(r.mixedSince) >= mixedTime:
		return fmt.Sprintf("responses have had different values of logicVersion for more than %.0f minutes: ", mixedTime.Minutes()) + remedy
	}
	return ""
}
