package objects

import (
	"encoding/json"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/internal/dashboard/web"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// Object is the object of a page as the user may see it.
type Object struct {
	object.Ref
	// Deleted reports that the object no longer exists. Only its history is known.
	Deleted bool
	Meta    metav1.ObjectMeta
	// Conditions are its status conditions.
	Conditions []metav1.Condition
	// Raw is its JSON; nil if it is deleted.
	Raw json.RawMessage
}

// URL returns the URL of its page, or of a page below it.
func (s *Object) URL(below ...string) string { return web.ObjectURL(s.Ref, below...) }

// loadObject loads the object of the URL. A deleted object shows its history to users who could
// get it.
func (req *Request) loadObject() (*Object, error) {
	ref, err := req.RefFromURL()
	if err != nil {
		return nil, err
	}
	s := &Object{Ref: ref}
	raw, err := req.API.Get(req.Context(), s.Kind, s.Namespace, s.Name)
	switch {
	case errors.Is(err, failure.ErrNotFound) && req.Can("get", s.Kind, s.Namespace, s.Name):
		s.Deleted = true
		return s, nil
	case req.AccessError() != nil:
		return nil, req.AccessError()
	case err != nil:
		return nil, err
	}
	if err := s.Parse(raw); err != nil {
		return nil, err
	}
	return s, nil
}

// Parse reads the metadata and conditions of an object.
func (s *Object) Parse(raw json.RawMessage) error {
	var o struct {
		Metadata metav1.ObjectMeta `json:"metadata"`
	}
	if err := json.Unmarshal(raw, &o); err != nil {
		return fmt.Errorf("decode %s %s: %w", s.Kind.Kind, s.Name, err)
	}
	s.Raw, s.Meta, s.UID = raw, o.Metadata, string(o.Metadata.UID)
	var status struct {
		Status struct {
			Conditions []metav1.Condition `json:"conditions"`
		} `json:"status"`
	}
	// The conditions of a custom resource may have another schema.
	if json.Unmarshal(raw, &status) == nil {
		s.Conditions = status.Status.Conditions
	}
	return nil
}

// Paused reports whether the object has the paused annotation.
func (s *Object) Paused() bool { return s.Meta.Annotations[v1alpha1.AnnotationPaused] == "true" }
