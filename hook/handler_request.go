package hook

import (
	"slices"
	"strconv"
)

// AppendJSON appends the request's wire form to dst, with objects byte for byte and
// owned objects under V2 keys. Every field is present; unknown values are null.
func (n *HandlerRequest) AppendJSON(dst []byte) []byte {
	dst = slices.Grow(dst, n.wireSize())
	dst = append(dst, `{"controller":`...)
	dst = appendObject(dst, n.Controller)
	dst = appendField(dst, "handler")
	dst = appendString(dst, n.Handler)
	dst = appendField(dst, "reason")
	dst = appendString(dst, string(n.Reason))
	dst = appendField(dst, "object")
	dst = appendObject(dst, n.Object)
	dst = appendField(dst, "previousState")
	dst = appendObject(dst, n.PreviousState)
	dst = appendField(dst, "changes")
	dst = appendChanges(dst, n.Changes)
	dst = appendField(dst, "owned")
	dst = objectKeys{}.appendGroups(dst, n.Owned)
	dst = appendField(dst, "attempt")
	dst = strconv.AppendInt(dst, int64(n.Attempt), 10)
	dst = appendField(dst, "deleted")
	dst = strconv.AppendBool(dst, n.Deleted)
	dst = appendField(dst, "dryRun")
	dst = strconv.AppendBool(dst, n.DryRun)
	return append(dst, '}')
}

// handlerRequestSize and changeSize bound the punctuation of a request and of a change.
const (
	handlerRequestSize = 192
	changeSize         = 32
)

func (n *HandlerRequest) wireSize() int {
	size := handlerRequestSize + len(n.Handler) + len(n.Controller) + len(n.Object) + len(n.PreviousState) + sizeOf(n.Owned)
	for _, c := range n.Changes {
		size += changeSize + len(c.Path) + len(c.From) + len(c.To)
	}
	return size
}

func appendChanges(dst []byte, changes []FieldChange) []byte {
	dst = append(dst, '[')
	for i, c := range changes {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, `{"path":`...)
		dst = appendString(dst, c.Path)
		dst = appendField(dst, "from")
		dst = appendObject(dst, c.From)
		dst = appendField(dst, "to")
		dst = appendObject(dst, c.To)
		dst = append(dst, '}')
	}
	return append(dst, ']')
}
