package hook

import (
	"encoding/json"
	"strconv"
)

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

// appendComma appends the comma before every item but the first.
func appendComma(dst []byte, i int) []byte {
	if i > 0 {
		dst = append(dst, ',')
	}
	return dst
}
