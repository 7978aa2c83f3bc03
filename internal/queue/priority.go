package queue

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
