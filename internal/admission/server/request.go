package server

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	"github.com/setpoint-dev/setpoint/hook"
)

// The one form of reviews that is spoken.
const (
	reviewVersion = "admission.k8s.io/v1"
	reviewKind    = "AdmissionReview"
)

// readReview reads and decodes a review. It uses no turn of the program.
func (s *Server) readReview(w http.ResponseWriter, r *http.Request) (*admissionv1.AdmissionRequest, error) {
	connection := http.NewResponseController(w)
	// Where there are no deadlines there is no connection that could be slow.
	_ = connection.SetReadDeadline(time.Now().Add(s.options.BodyTimeout))
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, s.options.MaxBody))
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		return nil, newHTTPError(http.StatusRequestEntityTooLarge, "the review exceeds %d bytes", s.options.MaxBody)
	}
	if err != nil {
		return nil, newHTTPError(http.StatusBadRequest, "read the review after %d bytes: %w", len(body), err)
	}
	_ = connection.SetReadDeadline(time.Time{}) // Else the connection ends while the hook is at work.
	review, err := decodeReview(body)
	if err != nil {
		return nil, newHTTPError(http.StatusBadRequest, "malformed %s: %w", reviewKind, err)
	}
	return review, nil
}

// decodeReview decodes an AdmissionReview. Hooks receive its objects on one line.
func decodeReview(body []byte) (*admissionv1.AdmissionRequest, error) {
	var review admissionv1.AdmissionReview
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

func hookRequest(r *admissionv1.AdmissionRequest) *hook.ReviewRequest {
	gv := schema.GroupVersion{Group: r.Kind.Group, Version: r.Kind.Version}
	user := hook.User{Name: r.UserInfo.Username, UID: r.UserInfo.UID, Groups: r.UserInfo.Groups}
	if len(r.UserInfo.Extra) > 0 {
		user.Extra = map[string][]string{}
	}
	for key, values := range r.UserInfo.Extra {
		user.Extra[key] = values
	}
	return &hook.ReviewRequest{
		UID: string(r.UID), Operation: hook.Operation(r.Operation), APIVersion: gv.String(), Kind: r.Kind.Kind,
		Resource: r.Resource.Resource, Subresource: r.SubResource, Namespace: r.Namespace, Name: r.Name,
		Object: r.Object.Raw, OldObject: r.OldObject.Raw, User: user, DryRun: ptr.Deref(r.DryRun, false),
	}
}
