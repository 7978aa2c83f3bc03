package queue

import "strings"

// CauseKind says what sort of thing put a key into the queue.
type CauseKind uint8

// The kinds of causes. What follows from each is in traitsOf.
const (
	Unspecified        CauseKind = iota
	ParentChanged                // the parent's generation, labels or annotations changed, or it is being deleted
	ReconcileRequested           // somebody asked for this sync by name
	HookChanged                  // the logic itself is another one: a new version, a restarted process
	StatusChanged                // only the parent's status changed
	ChildChanged                 // Detail: kind, Object: which
	RelatedChanged               // Detail: kind, Object: which
	Retrying                     // added by the queue when a backoff ends; Detail: the number of failed attempts
	RequeueAfter                 // the hook asked to be called again after a time
	Resync                       // the regular look, whether or not anything changed
	Start                        // the controller started, or saw the parent for the first time

	causeKinds // how many there are
)

// backoffReaction is what a cause does to a key that waits in backoff.
type backoffReaction uint8

const (
	joinRetry    backoffReaction = iota // nothing new: joins the retry
	advanceRetry                        // news: brings the retry forward, but keeps the failures in mind
	resetBackoff                        // another input: forgets the failures and runs at once
)

type traits struct {
	before, after string // the words around a cause's particulars
	priority      Priority
	reaction      backoffReaction
}

// traitsOf is the one place that says what each kind of cause means.
//
// StatusChanged waits in backoff because a failing sync may itself be what
// writes the status. Start does because lists are delivered again when a watch
// breaks.
var traitsOf = [causeKinds]traits{
	Unspecified:        {"unspecified", "", Background, joinRetry},
	ParentChanged:      {"parent", "changed", Edits, resetBackoff},
	ReconcileRequested: {"user asked", "", Edits, resetBackoff},
	HookChanged:        {"hook", "changed", Events, resetBackoff},
	StatusChanged:      {"parent status", "changed", Events, joinRetry},
	ChildChanged:       {"child", "changed", Events, advanceRetry},
	RelatedChanged:     {"related", "changed", Events, advanceRetry},
	Retrying:           {"retry", "", Retries, joinRetry},
	RequeueAfter:       {"recheck", "", Retries, joinRetry},
	Resync:             {"resync", "", Background, joinRetry},
	Start:              {"start", "", Background, joinRetry},
}

func (k CauseKind) traits() *traits {
	if k >= causeKinds {
		k = Unspecified
	}
	return &traitsOf[k]
}

// String returns the kind in words, of low cardinality: "child changed".
func (k CauseKind) String() string { return Cause{Kind: k}.String() }

// Priority returns the band in which a key with this cause is served.
func (k CauseKind) Priority() Priority { return k.traits().priority }

// Cause is one reason to sync a parent. Detail and Object are particulars for
// a reader; apart from Kind, two fields and no ready-made sentence, because
// causes are made for every event and read for few.
type Cause struct {
	Kind   CauseKind
	Detail string // a word: the kind of the object, a field, a number
	Object Key    // the object that changed, where it is not the parent itself
}

// String returns the cause as a reader wants it: "child ConfigMap a/b changed".
func (c Cause) String() string {
	words := make([]string, 0, 4)
	for _, word := range [...]string{c.Kind.traits().before, c.Detail, c.Object.String(), c.Kind.traits().after} {
		if word != "" {
			words = append(words, word)
		}
	}
	return strings.Join(words, " ")
}
