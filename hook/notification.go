package hook

// Notification is a line that the process of a handler writes to its stream: the name of an
// object, and what to do about it.
type Notification struct {
	// ObjectEvent names the object. If it has a Reason, the event is sent for the object, which
	// may be of any kind; else the object is reconciled. An empty UID means any.
	ObjectEvent
}

// IsEvent reports whether the notification has an event to send.
func (n *Notification) IsEvent() bool { return n.Reason != "" }

// DecodeNotification decodes a line of the stream of notifications. An invalid line is a
// *MalformedError.
func DecodeNotification(line []byte) (*Notification, error) {
	n := &Notification{}
	r := newReader(line, Strict)
	event := field{"event", func() (err error) {
		if r.null() {
			return r.skip()
		}
		n.Event, err = r.event()
		return err
	}}
	err := r.document(append(r.referenceFields(&n.ObjectEvent), event))
	if err == nil {
		err = r.checkReference(&n.ObjectEvent)
	}
	if err != nil {
		return nil, r.malformed(err)
	}
	return n, nil
}

// referenceFields are the fields that name the object of an event.
func (r *reader) referenceFields(e *ObjectEvent) []field {
	return []field{
		{"apiVersion", r.text(&e.APIVersion)},
		{"kind", r.text(&e.Kind)},
		{"namespace", r.text(&e.Namespace)},
		{"name", r.text(&e.Name)},
		{"uid", r.text(&e.UID)},
	}
}

// checkReference rejects a reference without a field that every object has.
func (r *reader) checkReference(e *ObjectEvent) error {
	return r.require(given{".apiVersion", e.APIVersion}, given{".kind", e.Kind}, given{".name", e.Name})
}
