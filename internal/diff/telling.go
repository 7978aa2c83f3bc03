package diff

import (
	"bytes"
	"cmp"
	"regexp"
	"slices"

	"github.com/setpoint-dev/setpoint/internal/inspect"
)

// Telling are the changes that tell most, and how many there are beside them. Times
// and counters that move whenever something else does are told only where there is
// nothing else, and what appeared in a status only where no word in it says the same.
func Telling(changes []inspect.Change, most int) (telling []inspect.Change, rest int) {
	telling = slices.Clone(changes)
	slices.SortStableFunc(telling, func(a, b inspect.Change) int { return cmp.Compare(rank(a), rank(b)) })
	if len(telling) > 0 {
		loudest := rank(telling[0])
		telling = slices.DeleteFunc(telling, func(c inspect.Change) bool {
			return rank(c) == quietest && loudest < quietest || rank(c) == appeared && loudest <= verdict
		})
	}
	telling = telling[:min(len(telling), most)]
	return telling, len(changes) - len(telling)
}

// The ranks of changes, those first that tell most.
const (
	meant    = iota // somebody's wish
	verdict         // what a status says in a word
	ordinary        // anything else
	appeared        // what came or went as a whole, field by field
	quietest        // what moves with everything
)

var (
	verdicts = regexp.MustCompile(`^status\.(phase|state|replicas|readyReplicas|availableReplicas|ready|message|reason)$|^status\.conditions\[type=[^\]]*\]\.status$`)
	moving   = regexp.MustCompile(`(Time|Timestamp|observedGeneration|resourceVersion|Hash|IP|IPs\[.*)$|kube-api-access-|\[(?:type|name|ip|uid)=[^\]]*\]\.(?:type|name|ip|uid)$`)
)

func rank(c inspect.Change) int {
	bothSides := c.From != nil && c.To != nil
	switch {
	case moving.MatchString(c.Path), !bothSides && (bytes.Equal(c.From, []byte("null")) || bytes.Equal(c.To, []byte("null"))):
		return quietest
	case verdicts.MatchString(c.Path):
		return verdict
	case bothSides && weight(c.Path) == 0:
		return meant
	case bothSides || weight(c.Path) == 0:
		return ordinary
	}
	return appeared
}
