package diff

import (
	"bytes"
	"cmp"
	"regexp"
	"slices"

	"github.com/setpoint-dev/setpoint/internal/inspect"
)

// Significant returns the most significant changes, and the number of others. Timestamps and
// counters count only if nothing else changed, added status fields only if no phase, condition
// or count says the same.
func Significant(changes []inspect.Change, most int) (significant []inspect.Change, rest int) {
	significant = slices.Clone(changes)
	slices.SortStableFunc(significant, func(a, b inspect.Change) int { return cmp.Compare(rankOf(a), rankOf(b)) })
	if len(significant) > 0 {
		highest := rankOf(significant[0])
		significant = slices.DeleteFunc(significant, func(c inspect.Change) bool {
			return rankOf(c) == rankNoise && highest < rankNoise || rankOf(c) == rankAppeared && highest <= rankState
		})
	}
	significant = significant[:min(len(significant), most)]
	return significant, len(changes) - len(significant)
}

// The ranks of changes, most significant first.
const (
	rankSpec     = iota // a user's change
	rankState           // a phase, condition status or count
	rankOther           // anything else
	rankAppeared        // fields of something added or removed
	rankNoise           // what changes with everything
)

var (
	statePaths = regexp.MustCompile(`^status\.(phase|state|replicas|readyReplicas|availableReplicas|ready|message|reason)$|^status\.conditions\[type=[^\]]*\]\.status$`)
	noisePaths = regexp.MustCompile(`(Time|Timestamp|observedGeneration|resourceVersion|Hash|IP|IPs\[.*)$|kube-api-access-|\[(?:type|name|ip|uid)=[^\]]*\]\.(?:type|name|ip|uid)$`)
)

func rankOf(c inspect.Change) int {
	bothSides := c.From != nil && c.To != nil
	switch {
	case noisePaths.MatchString(c.Path), !bothSides && (bytes.Equal(c.From, []byte("null")) || bytes.Equal(c.To, []byte("null"))):
		return rankNoise
	case statePaths.MatchString(c.Path):
		return rankState
	case bothSides && sectionOrder(c.Path) == 0:
		return rankSpec
	case bothSides || sectionOrder(c.Path) == 0:
		return rankOther
	}
	return rankAppeared
}
