package codec

import "github.com/setpoint-dev/setpoint/hook"

// DecodeNotification decodes a line of the stream of notifications. An invalid line is a
// *hook.MalformedError.
func DecodeNotification(line []byte) (*hook.Notification, error) {
	n := &hook.Notification{}
	r := newReader(line, Strict)
	event := field{"event", optional(r, &n.Event, func() error { return r.event(&n.Event) })}
	if err := r.document(append(referenceFields(&n.ObjectEvent), event)); err != nil {
		return nil, r.malformed(err)
	}
	return n, nil
}

// referenceFields are the fields that name the object of an event.
func referenceFields(e *hook.ObjectEvent) []field {
	return []field{
		{"apiVersion", nonEmpty{&e.APIVersion}},
		{"kind", nonEmpty{&e.Kind}},
		{"namespace", &e.Namespace},
		{"name", nonEmpty{&e.Name}},
		{"uid", &e.UID},
	}
}
