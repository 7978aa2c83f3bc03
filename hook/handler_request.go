package hook

import (
	"slices"
	"strconv"
	"time"
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

// appendOptional appends a string, or null for "".
func appendOptional(dst []byte, value string) []byte {
	if value == "" {
		return append(dst, "null"...)
	}
	return appendString(dst, value)
}

// microTime is how Kubernetes writes times with microseconds.
const microTime = "2006-01-02T15:04:05.000000Z07:00"

// appendTime appends a time, or null for zero.
func appendTime(dst []byte, value time.Time) []byte {
	if value.IsZero() {
		return append(dst, "null"...)
	}
	return append(value.UTC().AppendFormat(append(dst, '"'), microTime), '"')
}

func appendChanges(dst []byte, changes []FieldChange) []byte {
	dst = append(dst, '[')
	for i, c := range changes {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendString(append(dst, `{"path":`...), c.Path)
		dst = appendObject(appendField(dst, "from"), c.From)
		dst = appendObject(appendField(dst, "to"), c.To)
		dst = append(dst, '}')
	}
	return append(dst, ']')
}
