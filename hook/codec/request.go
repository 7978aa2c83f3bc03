package codec

import (
	"encoding/json"
	"slices"
	"strconv"

	"github.com/setpoint-dev/setpoint/hook"
)

// AppendSyncRequest appends the request's wire form to dst, with objects byte for byte. It
// sorts groups and objects by key, so equal state yields equal bytes.
//
// V1 keys have no namespace. If the parent is namespaced, V1 therefore omits children
// and related objects of other namespaces.
func AppendSyncRequest(dst []byte, r *hook.Request, w Wire) []byte {
	var keys objectKeys
	if w.Version == hook.V1 {
		keys.onlyNamespace = r.ParentNamespace
	}
	// An upper bound unless a name needs escaping, so that encoding allocates once.
	dst = slices.Grow(dst, frameSize+len(r.Controller)+len(r.Parent)+sizeOf(r.Children)+sizeOf(r.Related))
	parent, children := fieldsOf(w.ControllerType)
	dst = appendObject(append(dst, `{"controller":`...), r.Controller)
	dst = appendObject(appendField(dst, parent), r.Parent)
	dst = keys.appendGroups(appendField(dst, children), r.Children)
	dst = keys.appendGroups(appendField(dst, "related"), r.Related)
	dst = strconv.AppendBool(appendField(dst, "finalizing"), r.Finalizing)
	return append(dst, '}')
}

// AppendCustomizeRequest appends the request's wire form to dst. All controller types and
// versions share it.
func AppendCustomizeRequest(dst []byte, r *hook.CustomizeRequest) []byte {
	dst = slices.Grow(dst, frameSize+len(r.Controller)+len(r.Parent))
	dst = appendObject(append(dst, `{"controller":`...), r.Controller)
	dst = appendObject(appendField(dst, "parent"), r.Parent)
	return append(dst, '}')
}

// AppendHandlerRequest appends the request's wire form to dst, with objects byte for byte and
// owned objects under V2 keys. Every field is present; unknown values are null.
func AppendHandlerRequest(dst []byte, n *hook.HandlerRequest) []byte {
	dst = slices.Grow(dst, handlerSize(n))
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

func handlerSize(n *hook.HandlerRequest) int {
	size := handlerRequestSize + len(n.Handler) + len(n.Controller) + len(n.Object) + len(n.PreviousState) + len(n.Progress) +
		sizeOf(n.Owned)
	for _, c := range n.Changes {
		size += changeSize + len(c.Path) + len(c.From) + len(c.To)
	}
	return size
}

func appendChanges(dst []byte, changes []hook.FieldChange) []byte {
	dst = append(dst, '[')
	for i, c := range changes {
		dst = appendString(append(appendComma(dst, i), `{"path":`...), c.Path)
		dst = appendObject(appendField(dst, "from"), c.From)
		dst = appendObject(appendField(dst, "to"), c.To)
		dst = append(dst, '}')
	}
	return append(dst, ']')
}

// AppendIndexRequest appends the request's wire form to dst. Every field is present.
func AppendIndexRequest(dst []byte, q *hook.IndexRequest) []byte {
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

// AppendReviewRequest appends the request's wire form to dst, with objects byte for byte. Every
// field is present; absent values are null or "".
func AppendReviewRequest(dst []byte, r *hook.ReviewRequest) []byte {
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
	user, _ := json.Marshal(r.User) //nolint:errchkjson // Texts and lists of them always have a form.
	dst = append(appendField(dst, "user"), user...)
	dst = strconv.AppendBool(appendField(dst, "dryRun"), r.DryRun)
	return append(dst, '}')
}

// reviewRequestSize covers a typical request without its objects, including the user.
const reviewRequestSize = 1 << 10
