// Package request sends requests to the API server and returns the bodies of the responses.
package request

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
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

// IsForbiddenOrNotFound reports whether a retry is useless until a cluster admin grants or
// installs something.
func IsForbiddenOrNotFound(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsNotFound(err)
}

// IsPermanent reports whether a retry of the same request is useless.
func IsPermanent(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsInvalid(err) || apierrors.IsBadRequest(err)
}
