package apply

import (
	"context"
	"encoding/json"

	policy "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-dev/setpoint/internal/object"
)

// Evict asks for the very pod given to go, not for another one of its name. A
// pod that is gone already is no error. That a budget does not allow it now is a
// Refused error, and worth another try in a while.
func (w *Writer) Evict(ctx context.Context, resource object.Resource, pod *object.Object) error {
	body, err := json.Marshal(policy.Eviction{
		TypeMeta:      metav1.TypeMeta{APIVersion: "policy/v1", Kind: "Eviction"},
		ObjectMeta:    metav1.ObjectMeta{Namespace: pod.Namespace(), Name: pod.Name()},
		DeleteOptions: w.deleteOptions(pod),
	})
	if err != nil {
		return err
	}
	// A budget is looked at again by whoever asks, not by a client that waits.
	request := w.writeRequest(w.client.Post(), "").MaxRetries(0).
		AbsPath(resource.Path(pod.Namespace(), pod.Name()) + "/eviction").Body(body)
	if _, err = w.doRequest(ctx, resource, "evict", request); apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// TooManyRequests says that the server does not do it at the moment: it is busy, or a
// budget of pods that have to be there is used up.
func TooManyRequests(err error) bool { return apierrors.IsTooManyRequests(err) }
