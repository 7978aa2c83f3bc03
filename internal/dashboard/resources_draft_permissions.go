package dashboard

import (
	"context"
	"net/http"

	"github.com/setpoint-dev/setpoint/internal/dashboard/form"
	"github.com/setpoint-dev/setpoint/internal/dashboard/userclient"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// Permissions are checked before drafts are read. The API server would reject the object too,
// but only after it was parsed.

// editableRef returns the object in the URL if the user may patch it.
func (req *request) editableRef() (object.Ref, error) {
	ref, err := req.refFromURL()
	if err != nil {
		return ref, err
	}
	return ref, req.requireAccess("patch", ref.Kind, ref.Namespace, ref.Name)
}

// creatableKind returns the kind in the URL, unless it is cluster-scoped and the user may not
// create it. For namespaced objects the namespace is known later.
func (req *request) creatableKind() (ref object.Ref, err error) {
	if ref.Kind, err = req.pathKind(); err == nil && !ref.Namespaced {
		err = req.requireAccess("create", ref.Kind, "", "")
	}
	return ref, err
}

// requireCreate rejects users who may not create the object in its namespace.
func (req *request) requireCreate(kind object.Kind) error {
	namespace := req.field(".metadata.namespace")
	if req.field("as") == modeYAML {
		namespace = namespaceOf(req.field("text"))
	}
	return req.requireAccess("create", kind, targetNamespace(kind, namespace), "")
}

// namespaceOf returns the namespace of an object in YAML; "" if it is invalid.
func namespaceOf(text string) string {
	value, err := form.ParseYAML(text)
	if err != nil {
		return ""
	}
	object, _ := value.(map[string]any)
	metadata, _ := object["metadata"].(map[string]any)
	namespace, _ := metadata["namespace"].(string)
	return namespace
}

// targetNamespace returns where an object is created.
func targetNamespace(kind object.Kind, named string) string {
	switch {
	case !kind.Namespaced:
		return ""
	case named == "":
		return "default"
	}
	return named
}

// requireAccess returns an error for users without a permission. The error keeps the form, to
// be sent again later.
func (req *request) requireAccess(verb string, kind object.Kind, namespace, name string) error {
	if req.can(verb, kind, namespace, name) {
		return nil
	}
	if err := req.accessErrors.first(); err != nil {
		return req.accessUnknown(err)
	}
	p := permissionProblem(userclient.Permission{User: req.identity.User.Name, Verb: verb, Resource: kind.Plural, Group: kind.Group,
		Namespace: namespace})
	p.Form = req.r.PostForm
	return p
}

// accessUnknown returns the problem that the permissions are unknown.
func (req *request) accessUnknown(err error) error {
	if req.r.Method == http.MethodGet {
		return err
	}
	p := *problemOf(err)
	p.AutoRetry = false
	if p.Form = req.r.PostForm; len(p.Form) > 0 {
		p.Hint = "Your input is kept. Send it again when the API server responds."
	}
	return &p
}

// acquireDraftSlot waits for a free slot.
func (s *Server) acquireDraftSlot(ctx context.Context) (done func(), err error) {
	select {
	case s.draftSlots <- struct{}{}:
		return func() { <-s.draftSlots }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func tooManyDrafts() error {
	return &problem{
		Status: http.StatusTooManyRequests, Title: "Too many requests",
		Text: "You are sending " + formatCount(maxDrafts) + " other forms at the same time. Nothing was changed.",
		Hint: "Go back and send it again.",
	}
}
