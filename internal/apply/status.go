package apply

import (
	"encoding/json"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// statusOf reads the Status object of a refusal.
func statusOf(body []byte) (*apierrors.StatusError, bool) {
	var status metav1.Status
	if json.Unmarshal(body, &status) != nil || status.Kind != "Status" || status.Status != metav1.StatusFailure {
		return nil, false //nolint:nilerr // Another body than a Status is an answer, too.
	}
	return &apierrors.StatusError{ErrStatus: status}, true
}
