package queue

// Priority is a band of the queue; lower values are served first.
type Priority uint8

// The bands, from the most to the least urgent.
const (
	Edits      Priority = iota // somebody changed the parent or asked for a sync: a person may be waiting
	Events                     // something the parent depends on changed
	Retries                    // work that was put off and has come due
	Background                 // nothing is known to have changed: resyncs and start-up

	priorities // how many there are
)

// String returns the name used in metrics and logs.
func (p Priority) String() string {
	names := [priorities]string{"edits", "events", "retries", "background"}
	return names[min(p, Background)]
}
