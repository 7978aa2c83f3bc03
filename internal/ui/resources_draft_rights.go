package ui

import (
	"context"
	"net/http"
	"net/url"
	"slices"

	"github.com/setpoint-dev/setpoint/internal/asuser"
	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/ui/form"
)

// What may be done with drafts is checked before they are read: the API server would
// refuse to store one, but only after it was made of what was sent.

// mayEdit refuses a visitor without the right to change the object of the address.
func mayEdit(v *visit) error {
	ref, err := v.addressed()
	if err != nil {
		return err
	}
	return v.needs("patch", ref.Kind, ref.Namespace, ref.Name)
}

// mayCreateSome refuses a visitor without the right to create objects of a kind that is
// in no namespace. Of the others it is known later where one is to be created.
func mayCreateSome(v *visit) error {
	kind, err := v.api.Kind(v.context(), v.path("resource"))
	if err != nil || kind.Namespaced {
		return err
	}
	return v.needs("create", kind, "", "")
}

// mayCreate refuses a visitor without the right to create what was sent, in the
// namespace that it names.
func (v *visit) mayCreate(kind inspect.Kind) error {
	namespace := v.field(".metadata.namespace")
	if v.field("as") == entersYAML {
		namespace = namespaceOf(v.field("text"))
	}
	return v.needs("create", kind, namespaceFor(kind, namespace), "")
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

// namespaceFor is where an object of a kind is created that names a namespace, or none.
func namespaceFor(kind inspect.Kind, named string) string {
	switch {
	case !kind.Namespaced:
		return ""
	case named == "":
		return "default"
	}
	return named
}

// needs is an error for a visitor without a right. It keeps what was sent, if that was
// read already, to be sent again with the right.
func (v *visit) needs(verb string, kind inspect.Kind, namespace, name string) error {
	if v.may(verb, kind, namespace, name) {
		return nil
	}
	if err := v.doubt.reason(); err != nil {
		return v.undecided(err)
	}
	p := lacks(asuser.Right{User: v.visitor.User.Name, Verb: verb, Resource: kind.Plural, Group: kind.Group, Namespace: namespace})
	p.Sent = resent(v.r.PostForm)
	return p
}

// undecided is the problem that it is not known what a visitor may do.
func (v *visit) undecided(err error) error {
	if v.r.Method == http.MethodGet {
		return err
	}
	p := *problemOf(err)
	p.Retries = false
	if p.Sent = resent(v.r.PostForm); p.Sent != nil {
		p.Hint = "Nothing is lost: send it again once the API server answers."
	}
	return &p
}

// resent is a form as it can be sent again; nil for none. The page has its own token.
func resent(sent url.Values) url.Values {
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

// work waits until there is a place to work on a draft.
func (s *Server) work(ctx context.Context) (done func(), err error) {
	select {
	case s.atWork <- struct{}{}:
		return func() { <-s.atWork }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func tooManyDrafts() error {
	return &problem{
		Status: http.StatusTooManyRequests, Title: "Too many requests",
		Text: "You are sending " + count(maxDrafts) + " other forms at this moment. Nothing was changed.",
		Hint: "Go back and send it again.",
	}
}
