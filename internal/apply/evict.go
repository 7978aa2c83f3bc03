package apply

import (
	"context"
	"encoding/json"

	policy "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-dev/setpoint/internal/object"
)

// Evict evicts the pod with the UID of pod. A pod that is gone is no error. If a disruption budget
// does not allow the eviction now, TooManyRequests is true for the error.
func (w *Writer) Evict(ctx context.Context, resource object.Resource, pod *object.Object) error {
	body, err := json.Marshal(policy.Eviction{
		TypeMeta:      metav1.TypeMeta{APIVersion: "policy/v1", Kind: "Eviction"},
		ObjectMeta:    metav1.ObjectMeta{Namespace: pod.Namespace(), Name: pod.Name()},
		DeleteOptions: w.deleteOptions(pod),
	})
	if err != nil {
		return err
	}
	// The caller decides when to retry, not the client.
	request := w.writeRequest(w.client.Post(), "").MaxRetries(0).
		AbsPath(resource.Path(pod.Namespace(), pod.Name()) + "/eviction").Body(body)
	if _, err = w.doRequest(ctx, resource, "evict", request); apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// TooManyRequests reports whether the server is busy, or a disruption budget does not allow an
// eviction now.
func TooManyRequests(err error) bool { return apierrors.IsTooManyRequests(err) }
