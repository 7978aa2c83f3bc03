// Package request sends requests to the API server and returns the bodies of the responses.
package request

import (
	"context"
	"encoding/json"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/setpoint-dev/setpoint/internal/object"
)

// The media types of an object and of a list with nothing but the metadata of the objects.
const (
	Metadata     = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
	MetadataList = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
)

// Do sends a request. Unlike the raw response, its error has the message of the API
// server.
func Do(ctx context.Context, request *rest.Request) ([]byte, error) {
	return DoAs(ctx, "application/json", request)
}

// DoAs is Do for another media type.
func DoAs(ctx context.Context, mediaType string, request *rest.Request) ([]byte, error) {
	result := request.SetHeader("Accept", mediaType).Do(ctx)
	if err := result.Error(); err != nil {
		return nil, err
	}
	return result.Raw()
}

// DoJSON is Do with a value as the body.
func DoJSON(ctx context.Context, request *rest.Request, body any) ([]byte, error) {
	data, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	return Do(ctx, request.SetHeader("Content-Type", "application/json").Body(data))
}

// Delete deletes an object, if it is still what the preconditions say.
func Delete(ctx context.Context, client rest.Interface, resource object.Resource, o *object.Object, still metav1.Preconditions) error {
	_, err := DoJSON(ctx, client.Delete().AbsPath(resource.Path(o.Namespace(), o.Name())), metav1.DeleteOptions{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "DeleteOptions"}, Preconditions: &still,
	})
	return err
}

// Object returns the object of a response to Do or DoJSON.
func Object(response []byte, err error) (*object.Object, error) {
	if err != nil {
		return nil, err
	}
	return object.Parse(response)
}

// IsForbiddenOrNotFound reports whether a retry is useless until a cluster admin grants or
// installs something.
func IsForbiddenOrNotFound(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsNotFound(err)
}

// IsPermanent reports whether a retry of the same request is useless.
func IsPermanent(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsInvalid(err) || apierrors.IsBadRequest(err)
}
