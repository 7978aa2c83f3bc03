package apply

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/setpoint-dev/setpoint/internal/object"
)

// Patch merges a JSON merge patch into the object of that name. A UID or a
// resource version in the patch has to be the object's: else it is a Conflict.
func (w *Writer) Patch(ctx context.Context, resource object.Resource, o *object.Object, patch []byte) (*object.Object, error) {
	return w.send(ctx, resource, "patch", w.mergePatchRequest(resource.Path(o.Namespace(), o.Name()), patch))
}

// PatchStatus is Patch for the status of a kind that has it as a subresource. As
// with UpdateStatus, nobody looks for fields that the schema does not have.
func (w *Writer) PatchStatus(ctx context.Context, resource object.Resource, o *object.Object, patch []byte) (*object.Object, error) {
	request := w.mergePatchRequest(resource.Path(o.Namespace(), o.Name())+"/status", patch)
	return w.send(ctx, resource, "patch_status", request.Param("fieldValidation", metav1.FieldValidationIgnore))
}

// mergePatchRequest is a request to merge a patch into what is at a path.
func (w *Writer) mergePatchRequest(path string, patch []byte) *rest.Request {
	return w.writeRequest(w.client.Patch(types.MergePatchType), "").
		SetHeader("Content-Type", string(types.MergePatchType)).AbsPath(path).Body(patch)
}
