package server

import (
	"bytes"
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

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

// decodeReview decodes an AdmissionReview. Hooks receive its objects on one line.
func decodeReview(body []byte) (*reviewRequest, error) {
	var review admissionReview
	var compact bytes.Buffer
	if err := json.Compact(&compact, body); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(compact.Bytes(), &review); err != nil {
		return nil, err
	}
	if review.Kind != reviewKind || review.APIVersion != reviewVersion || review.Request == nil || review.Request.UID == "" {
		return nil, fmt.Errorf("must be an %s of %s with a request, not kind %q of %q",
			reviewKind, reviewVersion, review.Kind, review.APIVersion)
	}
	return review.Request, nil
}

func (r *reviewRequest) hookRequest() *hook.ReviewRequest {
	gv := schema.GroupVersion{Group: r.Kind.Group, Version: r.Kind.Version}
	return &hook.ReviewRequest{
		UID: r.UID, Operation: r.Operation, APIVersion: gv.String(), Kind: r.Kind.Kind,
		Resource: r.Resource.Resource, Subresource: r.SubResource, Namespace: r.Namespace, Name: r.Name,
		Object: given(r.Object), OldObject: given(r.OldObject), User: r.UserInfo, DryRun: r.DryRun,
	}
}

// given returns an object; nil for null.
func given(object json.RawMessage) json.RawMessage {
	if string(object) == "null" {
		return nil
	}
	return object
}
