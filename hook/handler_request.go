package hook

import (
	"encoding/json"
	"slices"
	"strconv"
)

// AppendJSON appends the request's wire form to dst, with objects byte for byte and
// owned objects under V2 keys. Every field is present; unknown values are null.
func (n *HandlerRequest) AppendJSON(dst []byte) []byte {
	dst = slices.Grow(dst, n.wireSize())
	dst = appendObject(append(dst, `{"controller":`...), n.Controller)
	dst = appendString(appendField(dst, "handler"), n.Handler)
	dst = appendString(appendField(dst, "reason"), string(n.Reason))
	dst = appendObject(appendField(dst, "object"), n.Object)
	dst = appendObject(appendField(dst, "previousState"), n.PreviousState)
	dst = appendChanges(appendField(dst, "changes"), n.Changes)
	dst = objectKeys{}.appendGroups(appendField(dst, "owned"), n.Owned)
	dst = strconv.AppendInt(appendField(dst, "attempt"), int64(n.Attempt), 10)
	dst = appendTime(appendField(dst, "firstAttempt"), n.FirstAttempt)
	dst = appendObject(appendField(dst, "progress"), n.Progress)
	dst = strconv.AppendBool(appendField(dst, "deleted"), n.Deleted)
	dst = appendOptional(appendField(dst, "event"), string(n.Event))
	dst = appendOptional(appendField(dst, "daemon"), string(n.Daemon))
	dst = strconv.AppendBool(appendField(dst, "dryRun"), n.DryRun)
	return append(dst, '}')
}

// handlerRequestSize and changeSize bound the punctuation of a request and of a change.
const (
	handlerRequestSize = 320
	changeSize         = 32
)

func (n *HandlerRequest) wireSize() int {
	size := handlerRequestSize + len(n.Handler) + len(n.Controller) + len(n.Object) + len(n.PreviousState) + len(n.Progress) +
		sizeOf(n.Owned)
	for _, c := range n.Changes {
		size += changeSize + len(c.Path) + len(c.From) + len(c.To)
	}
	return size
}

func appendChanges(dst []byte, changes []FieldChange) []byte {
	dst = append(dst, '[')
	for i, c := range changes {
		dst = appendString(append(appendComma(dst, i), `{"path":`...), c.Path)
		dst = appendObject(appendField(dst, "from"), c.From)
		dst = appendObject(appendField(dst, "to"), c.To)
		dst = append(dst, '}')
	}
	return append(dst, ']')
}

// IndexRequest has objects of one kind for the index of a process. Lists and changes have the
// same form: see First and Complete.
type IndexRequest struct {
	// Controller is the controller object.
	Controller json.RawMessage
	// APIVersion and Kind are those of all objects.
	APIVersion, Kind string
	// First means that a list begins: what the list does not have is no longer in the index.
	First bool
	// Objects are new or changed, Deleted are gone or no longer handled.
	Objects []json.RawMessage
	Deleted []DeletedObject
	// Complete means that the list ends with this request, or ended before.
	Complete bool
}

// DeletedObject names an object that is no longer in an index.
type DeletedObject struct{ Namespace, Name, UID string }

// AppendJSON appends the request's wire form to dst. Every field is present.
func (q *IndexRequest) AppendJSON(dst []byte) []byte {
	dst = appendObject(append(dst, `{"controller":`...), q.Controller)
	dst = appendString(appendField(dst, "apiVersion"), q.APIVersion)
	dst = appendString(appendField(dst, "kind"), q.Kind)
	dst = strconv.AppendBool(appendField(dst, "first"), q.First)
	dst = append(appendField(dst, "objects"), '[')
	for i, o := range q.Objects {
		dst = append(appendComma(dst, i), o...)
	}
	dst = append(appendField(append(dst, ']'), "deleted"), '[')
	for i, d := range q.Deleted {
		dst = appendString(append(appendComma(dst, i), `{"namespace":`...), d.Namespace)
		dst = appendString(appendField(dst, "name"), d.Name)
		dst = append(appendString(appendField(dst, "uid"), d.UID), '}')
	}
	dst = strconv.AppendBool(appendField(append(dst, ']'), "complete"), q.Complete)
	return append(dst, '}')
}

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
	event := field{"event", optional(r, &n.Event, func() (err error) {
		n.Event, err = r.event()
		return err
	})}
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
