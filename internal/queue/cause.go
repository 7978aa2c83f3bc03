package queue

import (
	"fmt"
	"slices"
	"strings"

	"github.com/setpoint-dev/setpoint/internal/lists"
)

// CauseKind is the kind of event that queued a key.
type CauseKind uint8

// The kinds of causes. traitsOf says what they do.
const (
	Unspecified        CauseKind = iota
	ParentChanged                // the parent's generation, labels or annotations changed, or it is being deleted
	ReconcileRequested           // a user requested this reconcile; Detail: who
	LogicChanged                 // the parent has moved to another version of the hooks; Detail: which
	HookChanged                  // the hook has a new version or was restarted
	LogicCompared                // the hooks are compared with another version; Detail: which
	StatusChanged                // only the parent's status changed
	ChildChanged                 // Detail: kind, Object: which
	RelatedChanged               // Detail: kind, Object: which
	Retrying                     // added by the queue when a backoff ends; Detail: the number of failed attempts
	RequeueAfter                 // the hook chose when to be called again
	Resync                       // periodic resync
	Start                        // initial list
	Connected                    // a connection to the process of the hook is open
	Notified                     // the process of the hook named the parent

	causeKinds // number of kinds
)

// backoffReaction is what a cause does to a key in backoff.
type backoffReaction uint8

const (
	joinRetry    backoffReaction = iota // nothing new: wait for the retry
	advanceRetry                        // something changed: retry earlier, but keep counting failures
	resetBackoff                        // new input: reset the failures and run at once
)

type traits struct {
	before, after string // the words around the details of a cause
	priority      Priority
	reaction      backoffReaction
}

// traitsOf defines what each kind of cause means.
//
// Start comes in the order of what is due: a listed object may have a user's edit, and must not wait for timers of
// others that are due again and again. Timers that begin with its own call come behind.
//
// StatusChanged joins the retry because a failing reconcile may have written the status itself. So
// does Start, because lists are delivered again when a watch is restored.
var traitsOf = [causeKinds]traits{
	Unspecified:        {"unspecified", "", Background, joinRetry},
	ParentChanged:      {"parent", "changed", Edits, resetBackoff},
	ReconcileRequested: {"manual reconcile", "", Edits, resetBackoff},
	LogicChanged:       {"logic changed to", "", Events, resetBackoff},
	HookChanged:        {"hook", "changed", Events, resetBackoff},
	LogicCompared:      {"hooks compared with", "", Background, joinRetry},
	StatusChanged:      {"parent status", "changed", Events, joinRetry},
	ChildChanged:       {"child", "changed", Events, advanceRetry},
	RelatedChanged:     {"related", "changed", Events, advanceRetry},
	Retrying:           {"retry", "", Retries, joinRetry},
	RequeueAfter:       {"scheduled requeue", "", Retries, joinRetry},
	Resync:             {"periodic resync", "", Background, joinRetry},
	Start:              {"initial list", "", Retries, joinRetry},
	Connected:          {"connected to the process", "", Events, joinRetry},
	Notified:           {"notified by the process", "", Events, advanceRetry},
}

func (k CauseKind) traits() *traits { return &traitsOf[k] }

// String returns the kind in words, such as "child changed".
func (k CauseKind) String() string { return Cause{Kind: k}.String() }

// Priority returns the priority of a key with this cause.
func (k CauseKind) Priority() Priority { return k.traits().priority }

// Cause is one reason to reconcile a parent. It has fields instead of a message, because causes are
// created for every event and printed for few.
type Cause struct {
	Kind   CauseKind
	Detail string // the kind of the object, a field, a number
	Object Key    // the object that changed, if it is not the parent
	// Version is the resource version of the object that changed, for traces; zero if there are none. Causes that
	// differ in it only are one.
	Version uint64
}

// same reports whether two causes differ in the version at most.
func (c Cause) same(other Cause) bool {
	c.Version = other.Version
	return c == other
}

// String returns text such as "child ConfigMap a/b changed".
func (c Cause) String() string {
	words := []string{c.Kind.traits().before, c.Detail, c.Object.String(), c.Kind.traits().after}
	return strings.Join(slices.DeleteFunc(words, func(word string) bool { return word == "" }), " ")
}

// maxListed bounds the causes of one key: a parent may have thousands of children.
const maxListed = 8

// Key identifies a parent. Namespace is empty for cluster-scoped kinds.
//
// The queue keeps keys while something is pending, so their strings must not be slices of a larger buffer.
type Key struct{ Namespace, Name string }

// String returns namespace/name, or only the name.
func (k Key) String() string {
	if k.Namespace == "" {
		return k.Name
	}
	return k.Namespace + "/" + k.Name
}

// Causes is a bounded set of causes in the order they were added. It knows all kinds, lists the
// first causes, urgent ones preferred, and counts the rest.
type Causes struct {
	list  []Cause
	more  int
	kinds uint16 // bit k: a cause of CauseKind k was added
}

// NewCauses returns a set of causes.
func NewCauses(causes ...Cause) Causes {
	var all Causes
	for _, cause := range causes {
		all.add(cause)
	}
	return all
}

// List returns the listed causes, oldest first. Do not change it.
func (c Causes) List() []Cause { return c.list }

// More returns how many causes are not listed, duplicates included.
func (c Causes) More() int { return c.more }

// Has reports whether a cause of this kind was added.
func (c Causes) Has(kind CauseKind) bool { return c.kinds&(1<<kind) != 0 }

// HasAny reports whether a cause of one of these kinds was added.
func (c Causes) HasAny(kinds ...CauseKind) bool { return slices.ContainsFunc(kinds, c.Has) }

// Only reports whether all causes are of this kind.
func (c Causes) Only(kind CauseKind) bool { return c.kinds == 1<<kind }

// Priority returns the priority of the most urgent cause.
func (c Causes) Priority() Priority {
	most := Background
	for kind := range causeKinds {
		if c.Has(kind) {
			most = min(most, kind.Priority())
		}
	}
	return most
}

// String returns the causes in one line.
func (c Causes) String() string {
	words := lists.Map(c.list, Cause.String)
	if c.more > 0 {
		words = append(words, fmt.Sprintf("%d more", c.more))
	}
	return strings.Join(words, ", ")
}

// Merge adds the causes of another set.
func (c *Causes) Merge(other Causes) {
	for _, cause := range other.list {
		c.add(cause)
	}
	c.more += other.more
	c.kinds |= other.kinds
}

func (c *Causes) reaction() backoffReaction {
	strongest := joinRetry
	for kind := range causeKinds {
		if c.Has(kind) {
			strongest = max(strongest, kind.traits().reaction)
		}
	}
	return strongest
}

func (c *Causes) add(cause Cause) {
	c.kinds |= 1 << cause.Kind
	known := slices.IndexFunc(c.list, cause.same)
	switch {
	case known >= 0:
		c.list[known].Version = cause.Version
	case len(c.list) < maxListed:
		c.list = append(c.list, cause)
	default:
		c.more++
		c.replaceLessUrgent(cause)
	}
}

// replaceLessUrgent replaces the newest of the least urgent listed causes if the new one is more urgent.
func (c *Causes) replaceLessUrgent(cause Cause) {
	least := 0
	for i, listed := range c.list {
		if listed.Kind.Priority() >= c.list[least].Kind.Priority() {
			least = i
		}
	}
	if cause.Kind.Priority() < c.list[least].Kind.Priority() {
		c.list = append(slices.Delete(c.list, least, least+1), cause)
	}
}

// Priority is the urgency of a key; lower values go first.
type Priority uint8

// The priorities, most urgent first.
const (
	Edits      Priority = iota // a user changed the parent or requested a reconcile
	Events                     // something that the parent depends on changed
	Retries                    // retries and requeues that are due, and initial lists
	Background                 // resyncs

	priorities // number of priorities
)

// String returns the name in metrics and logs.
func (p Priority) String() string {
	names := [priorities]string{"edits", "events", "retries", "background"}
	return names[min(p, Background)]
}
