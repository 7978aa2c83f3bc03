package hook

import (
	"slices"
	"strconv"
)

// AppendJSON appends the notice's wire form to dst. The objects go in as the
// bytes they are, and those that it owns under the keys of V2. Every field is
// there, with null where something is not known.
func (n *Notice) AppendJSON(dst []byte) []byte {
	dst = slices.Grow(dst, n.wireSize())
	dst = append(dst, `{"controller":`...)
	dst = appendObject(dst, n.Controller)
	dst = appendField(dst, "handler")
	dst = appendString(dst, n.Handler)
	dst = appendField(dst, "reason")
	dst = appendString(dst, string(n.Reason))
	dst = appendField(dst, "object")
	dst = appendObject(dst, n.Object)
	dst = appendField(dst, "old")
	dst = appendObject(dst, n.Old)
	dst = appendField(dst, "changes")
	dst = appendChanges(dst, n.Changes)
	dst = appendField(dst, "owned")
	dst = keys{}.appendGroups(dst, n.Owned)
	dst = appendField(dst, "attempt")
	dst = strconv.AppendInt(dst, int64(n.Attempt), 10)
	dst = appendField(dst, "gone")
	dst = strconv.AppendBool(dst, n.Gone)
	dst = appendField(dst, "dryRun")
	dst = strconv.AppendBool(dst, n.DryRun)
	return append(dst, '}')
}

// noticeSize is for the punctuation of a notice, and changeSize for that of a
// change.
const (
	noticeSize = 192
	changeSize = 32
)

func (n *Notice) wireSize() int {
	size := noticeSize + len(n.Handler) + len(n.Controller) + len(n.Object) + len(n.Old) + sizeOf(n.Owned)
	for _, c := range n.Changes {
		size += changeSize + len(c.Path) + len(c.Old) + len(c.New)
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
		dst = appendField(dst, "old")
		dst = appendObject(dst, c.Old)
		dst = appendField(dst, "new")
		dst = appendObject(dst, c.New)
		dst = append(dst, '}')
	}
	return append(dst, ']')
}
