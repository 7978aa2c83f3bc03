package dashboard

import (
	"context"
	"net/http"
	"net/url"
	"slices"

	"github.com/setpoint-dev/setpoint/internal/dashboard/form"
	"github.com/setpoint-dev/setpoint/internal/dashboard/model"
	"github.com/setpoint-dev/setpoint/internal/dashboard/userclient"
)

// What may be done with drafts is checked before they are read: the API server would
// refuse to store one, but only after it was made of what was sent.

// checkEditAccess refuses a visitor without the right to change the object of the address.
func checkEditAccess(req *request) error {
	ref, err := req.refFromURL()
	if err != nil {
		return err
	}
	return req.requireAccess("patch", ref.Kind, ref.Namespace, ref.Name)
}

// checkCreateAccess refuses a visitor without the right to create objects of a kind that is
// in no namespace. Of the others it is known later where one is to be created.
func checkCreateAccess(req *request) error {
	kind, err := req.api.Kind(req.context(), req.path("resource"))
	if err != nil || kind.Namespaced {
		return err
	}
	return req.requireAccess("create", kind, "", "")
}

// requireCreate refuses a visitor without the right to create what was sent, in the
// namespace that it names.
func (req *request) requireCreate(kind model.Kind) error {
	namespace := req.field(".metadata.namespace")
	if req.field("as") == modeYAML {
		namespace = namespaceOf(req.field("text"))
	}
	return req.requireAccess("create", kind, targetNamespace(kind, namespace), "")
}

// namespaceOf is the namespace that an object names; "" for what cannot be read, with
// which no more is done than to say so.
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

// targetNamespace is where an object of a kind is created that names a namespace, or none.
func targetNamespace(kind model.Kind, named string) string {
	switch {
	case !kind.Namespaced:
		return ""
	case named == "":
		return "default"
	}
	return named
}

// requireAccess is an error for a visitor without a right. It keeps what was sent, if that was
// read already, to be sent again with the right.
func (req *request) requireAccess(verb string, kind model.Kind, namespace, name string) error {
	if req.can(verb, kind, namespace, name) {
		return nil
	}
	if err := req.accessErrors.first(); err != nil {
		return req.accessUnknown(err)
	}
	p := permissionProblem(userclient.Permission{User: req.identity.User.Name, Verb: verb, Resource: kind.Plural, Group: kind.Group, Namespace: namespace})
	p.Form = resubmittable(req.r.PostForm)
	return p
}

// accessUnknown is the problem that it is not known what a visitor may do.
func (req *request) accessUnknown(err error) error {
	if req.r.Method == http.MethodGet {
		return err
	}
	p := *problemOf(err)
	p.AutoRetry = false
	if p.Form = resubmittable(req.r.PostForm); p.Form != nil {
		p.Hint = "Your input is kept. Send it again when the API server responds."
	}
	return &p
}

// resubmittable is a form as it can be sent again; nil for none. The page has its own token.
func resubmittable(sent url.Values) url.Values {
	if len(sent) == 0 {
		return nil
	}
	again := make(url.Values, len(sent))
	for name, values := range sent {
		if name != "csrf" {
			again[name] = slices.Clone(values)
		}
	}
	return again
}

// acquireDraftSlot waits until there is a place to work on a draft.
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
