package hook

import (
	"encoding/json"
	"slices"
	"strconv"
)

// AppendJSON appends the request's wire form to dst, with objects byte for byte. Every
// field is present; absent values are null or "".
func (r *ReviewRequest) AppendJSON(dst []byte) []byte {
	dst = slices.Grow(dst, reviewRequestSize+len(r.Controller)+len(r.Object)+len(r.OldObject))
	dst = append(dst, `{"controller":`...)
	dst = appendObject(dst, r.Controller)
	for _, one := range []struct{ name, value string }{
		{"webhook", r.Webhook}, {"uid", r.UID}, {"operation", string(r.Operation)},
		{"apiVersion", r.APIVersion}, {"kind", r.Kind}, {"resource", r.Resource}, {"subresource", r.Subresource},
		{"namespace", r.Namespace}, {"name", r.Name},
	} {
		dst = appendField(dst, one.name)
		dst = appendString(dst, one.value)
	}
	dst = appendField(dst, "object")
	dst = appendObject(dst, r.Object)
	dst = appendField(dst, "oldObject")
	dst = appendObject(dst, r.OldObject)
	dst = appendField(dst, "user")
	dst = r.User.appendJSON(dst)
	dst = appendField(dst, "dryRun")
	dst = strconv.AppendBool(dst, r.DryRun)
	return append(dst, '}')
}

// reviewRequestSize covers a typical request without its objects, including the user.
const reviewRequestSize = 1 << 10

func (u *User) appendJSON(dst []byte) []byte {
	text, err := json.Marshal(u)
	if err != nil {
		return append(dst, "null"...) // Strings and lists of them always have a form.
	}
	return append(dst, text...)
}
