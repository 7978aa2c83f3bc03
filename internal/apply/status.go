package apply

import (
	"encoding/json"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// statusErrorOf returns the server's Status as an error. A raw request returns it as the body, with
// an error that has only the code.
func statusErrorOf(body []byte, err error) error {
	status, ok := parseStatus(body)
	if !ok {
		return err
	}
	switch {
	case isUIDMismatch(status):
		return newConflict("the object was replaced by another one with the same name")
	case isMalformedApply(status):
		status.ErrStatus.Code, status.ErrStatus.Reason = http.StatusUnprocessableEntity, metav1.StatusReasonInvalid
	}
	return status
}

// parseStatus parses the Status in an error response.
func parseStatus(body []byte) (*apierrors.StatusError, bool) {
	var status metav1.Status
	if json.Unmarshal(body, &status) != nil || status.Kind != "Status" || status.Status != metav1.StatusFailure {
		return nil, false //nolint:nilerr // The body need not be a Status.
	}
	return &apierrors.StatusError{ErrStatus: status}, true
}

// isUIDMismatch reports whether another object with the same name exists, because the UID does not
// match.
func isUIDMismatch(status *apierrors.StatusError) bool {
	if !apierrors.IsInvalid(status) || status.ErrStatus.Details == nil {
		return false
	}
	for _, cause := range status.ErrStatus.Details.Causes {
		if cause.Field == "metadata.uid" {
			return true
		}
	}
	return false
}

// isMalformedApply reports whether an applied object does not match the schema, which the server
// returns as an internal error.
func isMalformedApply(status *apierrors.StatusError) bool {
	return status.ErrStatus.Code == http.StatusInternalServerError &&
		strings.HasPrefix(status.ErrStatus.Message, "failed to create typed patch object")
}

func newConflict(message string) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusConflict, Reason: metav1.StatusReasonConflict, Message: message,
	}}
}
