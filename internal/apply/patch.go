package apply

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/setpoint-dev/setpoint/internal/object"
)

// Patch sends a JSON merge patch for the object with the name of o. If the patch has a UID or
// resource version, a mismatch is a Conflict.
func (w *Writer) Patch(ctx context.Context, resource object.Resource, o *object.Object, patch []byte) (*object.Object, error) {
	return w.send(ctx, resource, "patch", w.mergePatchRequest(resource.Path(o.Namespace(), o.Name()), patch))
}

// PatchStatus is Patch for the status subresource. Like UpdateStatus, it turns off field
// validation.
func (w *Writer) PatchStatus(ctx context.Context, resource object.Resource, o *object.Object, patch []byte) (*object.Object, error) {
	request := w.mergePatchRequest(resource.Path(o.Namespace(), o.Name())+"/status", patch)
	return w.send(ctx, resource, "patch_status", request.Param("fieldValidation", metav1.FieldValidationIgnore))
}

func (w *Writer) mergePatchRequest(path string, patch []byte) *rest.Request {
	return w.writeRequest(w.client.Patch(types.MergePatchType), "").
		SetHeader("Content-Type", string(types.MergePatchType)).AbsPath(path).Body(patch)
}
