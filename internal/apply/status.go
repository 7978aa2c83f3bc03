package apply

import (
	"encoding/json"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// statusErrorOf puts the server's own words into an error: a raw exchange yields the
// Status object as bytes and an error that only knows the code.
func statusErrorOf(body []byte, err error) error {
	status, ok := parseStatus(body)
	if !ok {
		return err
	}
	switch {
	case isUIDMismatch(status):
		return newConflict("the object is another one of that name by now")
	case isMalformedApply(status):
		status.ErrStatus.Code, status.ErrStatus.Reason = http.StatusUnprocessableEntity, metav1.StatusReasonInvalid
	}
	return status
}

// parseStatus reads the Status object of a refusal.
func parseStatus(body []byte) (*apierrors.StatusError, bool) {
	var status metav1.Status
	if json.Unmarshal(body, &status) != nil || status.Kind != "Status" || status.Status != metav1.StatusFailure {
		return nil, false //nolint:nilerr // Another body than a Status is an answer, too.
	}
	return &apierrors.StatusError{ErrStatus: status}, true
}

// isUIDMismatch says that an object's UID was to be changed: what was to be
// written is gone, and there is another one of its name.
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

// isMalformedApply says that what was applied does not fit the kind, such as by a
// field that nobody knows. The server calls that an error of its own.
func isMalformedApply(status *apierrors.StatusError) bool {
	return status.ErrStatus.Code == http.StatusInternalServerError &&
		strings.HasPrefix(status.ErrStatus.Message, "failed to create typed patch object")
}

func newConflict(message string) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusConflict, Reason: metav1.StatusReasonConflict, Message: message,
	}}
}
