package server

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/setpoint-dev/setpoint/hook"
)

// The one form of reviews that is spoken.
const (
	reviewVersion = "admission.k8s.io/v1"
	reviewKind    = "AdmissionReview"
)

// admissionReview is an AdmissionReview whose objects stay JSON.
type admissionReview struct {
	APIVersion string         `json:"apiVersion"`
	Kind       string         `json:"kind"`
	Request    *reviewRequest `json:"request"`
}

type reviewRequest struct {
	UID         string                      `json:"uid"`
	Kind        metav1.GroupVersionKind     `json:"kind"`
	Resource    metav1.GroupVersionResource `json:"resource"`
	SubResource string                      `json:"subResource"`
	Name        string                      `json:"name"`
	Namespace   string                      `json:"namespace"`
	Operation   hook.Operation              `json:"operation"`
	UserInfo    hook.User                   `json:"userInfo"`
	Object      json.RawMessage             `json:"object"`
	OldObject   json.RawMessage             `json:"oldObject"`
	DryRun      bool                        `json:"dryRun"`
}

// decodeReview decodes an AdmissionReview.
func decodeReview(body []byte) (*reviewRequest, error) {
	if !utf8.Valid(body) {
		return nil, errors.New("invalid UTF-8")
	}
	body, err := compactJSON(body)
	if err != nil {
		return nil, err
	}
	var review admissionReview
	err = utiljson.Unmarshal(body, &review)
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return nil, fmt.Errorf("%s: must not be a JSON %s", cmp.Or(wrong.Field, "the review"), wrong.Value)
	}
	if err != nil {
		return nil, err
	}
	switch {
	case review.Kind != reviewKind || review.APIVersion != reviewVersion:
		return nil, fmt.Errorf("must be an %s of %s, not kind %q of %q", reviewKind, reviewVersion, review.Kind, review.APIVersion)
	case review.Request == nil:
		return nil, errors.New("request: required")
	}
	if err := review.Request.check(); err != nil {
		return nil, fmt.Errorf("request: %w", err)
	}
	return review.Request, nil
}

// compactJSON removes whitespace between values, which API servers do not send.
func compactJSON(body []byte) ([]byte, error) {
	body = bytes.TrimSpace(body)
	if !bytes.ContainsAny(body, "\n\t") && !bytes.Contains(body, []byte(`": `)) {
		return body, nil
	}
	var out bytes.Buffer
	out.Grow(len(body))
	if err := json.Compact(&out, body); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// check checks the fields that a response needs. Null is no object.
func (r *reviewRequest) check() error {
	for _, one := range []struct {
		name   string
		object *json.RawMessage
	}{{"object", &r.Object}, {"oldObject", &r.OldObject}} {
		switch {
		case bytes.Equal(*one.object, []byte("null")):
			*one.object = nil
		case *one.object != nil && (*one.object)[0] != '{':
			return errors.New(one.name + ": must be an object")
		}
	}
	switch {
	case r.UID == "":
		return errors.New("uid: required")
	case r.Kind.Kind == "" || r.Kind.Version == "":
		return errors.New("kind: required, with version and kind")
	case r.Resource.Resource == "":
		return errors.New("resource: required, with version and resource")
	}
	switch r.Operation {
	case hook.OperationDelete, hook.OperationConnect:
		return nil
	case hook.OperationUpdate:
		if r.OldObject == nil {
			return errors.New("oldObject: required for UPDATE")
		}
		fallthrough
	case hook.OperationCreate:
		if r.Object == nil {
			return fmt.Errorf("object: required for %s", r.Operation)
		}
		return nil
	}
	return fmt.Errorf("operation: must be CREATE, UPDATE, DELETE or CONNECT, is %q", r.Operation)
}

func (r *reviewRequest) hookRequest() *hook.ReviewRequest {
	gv := schema.GroupVersion{Group: r.Kind.Group, Version: r.Kind.Version}
	return &hook.ReviewRequest{
		UID: r.UID, Operation: r.Operation, APIVersion: gv.String(), Kind: r.Kind.Kind,
		Resource: r.Resource.Resource, Subresource: r.SubResource, Namespace: r.Namespace, Name: r.Name,
		Object: r.Object, OldObject: r.OldObject, User: r.UserInfo, DryRun: r.DryRun,
	}
}
