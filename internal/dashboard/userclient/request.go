package userclient

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"

	"github.com/setpoint-dev/setpoint/internal/failure"
)

// Timeouts of requests.
const (
	readTimeout  = 10 * time.Second
	writeTimeout = 30 * time.Second
)

// Media types.
const (
	mediaTypeJSON  = "application/json"
	mediaTypeList  = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
	mediaTypeTable = "application/json;as=Table;g=meta.k8s.io;v=v1,application/json"
)

// ErrUnreachable is wrapped by errors about an API server that does not respond or is
// unavailable. The request may be retried.
var ErrUnreachable = errors.New("the API server cannot be reached")

// requester makes requests as one user.
type requester struct {
	rest  rest.Interface
	hangs *hangDetector
}

// read requests a media type.
func (r requester) read(ctx context.Context, accept string, request *rest.Request) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	return r.do(ctx, request.SetHeader("Accept", accept))
}

// do makes a request that is canceled if the API server hangs.
func (r requester) do(ctx context.Context, request *rest.Request) ([]byte, error) {
	ctx, stop := r.hangs.withHangCheck(ctx)
	defer stop()
	return doRequest(ctx, request)
}

// get decodes the response of a request.
func (r requester) get(ctx context.Context, accept string, request *rest.Request, into any) error {
	data, err := r.read(ctx, accept, request)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, into); err != nil {
		return fmt.Errorf("decode response of %s: %w", request.URL().Path, err)
	}
	return nil
}

// post creates a review and decodes the response.
func (r requester) post(ctx context.Context, path string, review, into any) error {
	body, err := json.Marshal(review)
	if err != nil {
		return fmt.Errorf("encode review: %w", err)
	}
	return r.get(ctx, mediaTypeJSON, r.rest.Post().AbsPath(path).SetHeader("Content-Type", mediaTypeJSON).Body(body), into)
}

// doRequest makes a request and classifies its error.
func doRequest(ctx context.Context, request *rest.Request) ([]byte, error) {
	result := request.Do(ctx)
	if err := result.Error(); err != nil {
		return nil, classifyError(ctx, err)
	}
	return result.Raw()
}

// classifiedError is an error with its class.
type classifiedError struct {
	class error
	err   error
}

func (r classifiedError) Error() string   { return r.err.Error() }
func (r classifiedError) Unwrap() []error { return []error{r.class, r.err} }

// classifyError adds ErrUnreachable or failure.ErrNotFound to an error.
func classifyError(ctx context.Context, err error) error {
	var status apierrors.APIStatus
	responded := errors.As(err, &status)
	switch {
	case errors.Is(context.Cause(ctx), errNotResponding):
		return classifiedError{ErrUnreachable, fmt.Errorf("%w: %w", ErrUnreachable, errNotResponding)}
	case errors.Is(context.Cause(ctx), context.Canceled):
		return err
	case !responded:
		return classifiedError{ErrUnreachable, fmt.Errorf("%w: %w", ErrUnreachable, err)}
	case apierrors.IsNotFound(err):
		return classifiedError{failure.ErrNotFound, err}
	case apierrors.IsServiceUnavailable(err), apierrors.IsTimeout(err), apierrors.IsServerTimeout(err), apierrors.IsTooManyRequests(err):
		return classifiedError{ErrUnreachable, err}
	}
	return err
}
