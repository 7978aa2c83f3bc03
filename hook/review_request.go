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
	dst = appendObject(append(dst, `{"controller":`...), r.Controller)
	for _, one := range []struct{ name, value string }{
		{"webhook", r.Webhook}, {"uid", r.UID}, {"operation", string(r.Operation)},
		{"apiVersion", r.APIVersion}, {"kind", r.Kind}, {"resource", r.Resource}, {"subresource", r.Subresource},
		{"namespace", r.Namespace}, {"name", r.Name},
	} {
		dst = appendString(appendField(dst, one.name), one.value)
	}
	dst = appendObject(appendField(dst, "object"), r.Object)
	dst = appendObject(appendField(dst, "oldObject"), r.OldObject)
	dst = r.User.appendJSON(appendField(dst, "user"))
	dst = strconv.AppendBool(appendField(dst, "dryRun"), r.DryRun)
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
