package asuser

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/singleflight"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"

	"github.com/setpoint-dev/setpoint/internal/inspect"
)

// How long a request may take. Who waits for a page does not wait for longer.
const (
	readLimit  = 10 * time.Second
	writeLimit = 30 * time.Second
)

// What is asked for of an answer.
const (
	asJSON     = "application/json"
	asMetadata = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
	asList     = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
	asTable    = "application/json;as=Table;g=meta.k8s.io;v=v1,application/json"
)

// ErrUnreachable is wrapped by errors about an API server that does not answer, or
// says that it cannot at present. It is worth asking again later.
var ErrUnreachable = errors.New("the API server cannot be reached")

// requester makes requests as somebody.
type requester struct {
	rest  rest.Interface
	pulse *pulse
}

// read asks for what is at a path.
func (r requester) read(ctx context.Context, accept string, request *rest.Request) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, readLimit)
	defer cancel()
	return r.answer(ctx, request.SetHeader("Accept", accept))
}

// answer makes a request for as long as the API server answers anything at all.
func (r requester) answer(ctx context.Context, request *rest.Request) ([]byte, error) {
	ctx, stop := r.pulse.watch(ctx)
	defer stop()
	return answer(ctx, request)
}

// get reads what is at a path into a value.
func (r requester) get(ctx context.Context, accept string, request *rest.Request, into any) error {
	data, err := r.read(ctx, accept, request)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, into); err != nil {
		return fmt.Errorf("understand the answer of %s: %w", request.URL().Path, err)
	}
	return nil
}

// post asks by a review, which is an object made to get an answer.
func (r requester) post(ctx context.Context, path string, review, into any) error {
	body, err := json.Marshal(review)
	if err != nil {
		return fmt.Errorf("write a review: %w", err)
	}
	return r.get(ctx, asJSON, r.rest.Post().AbsPath(path).SetHeader("Content-Type", asJSON).Body(body), into)
}

// answer makes a request. Its error says what became of the request, in the words of
// the API server where it had any.
func answer(ctx context.Context, request *rest.Request) ([]byte, error) {
	result := request.Do(ctx)
	if err := result.Error(); err != nil {
		return nil, classify(ctx, err)
	}
	return result.Raw()
}

// together does once what several want at the same time. Who waits no longer gives up
// alone.
func together(ctx context.Context, group *singleflight.Group, what string, do func(ctx context.Context) error) error {
	done := group.DoChan(what, func() (any, error) { return nil, guarded(context.WithoutCancel(ctx), do) })
	select {
	case <-ctx.Done():
		return ctx.Err()
	case result := <-done:
		return result.Err
	}
}

// guarded turns a panic into an error: what several wait for runs apart from all of
// them, where it would end the process. Some of what it reads others have written.
func guarded(ctx context.Context, do func(ctx context.Context) error) (err error) {
	defer func() {
		if reason := recover(); reason != nil {
			err = fmt.Errorf("understand what the API server says: %v", reason)
		}
	}()
	return do(ctx)
}

// refusal is an error and the one of ours that it is a case of.
type refusal struct {
	of  error
	err error
}

func (r refusal) Error() string   { return r.err.Error() }
func (r refusal) Unwrap() []error { return []error{r.of, r.err} }

// classify says which of our errors an error is a case of.
func classify(ctx context.Context, err error) error {
	var status apierrors.APIStatus
	answered := errors.As(err, &status)
	switch {
	case errors.Is(context.Cause(ctx), errSilent):
		return refusal{ErrUnreachable, fmt.Errorf("%w: %w", ErrUnreachable, errSilent)}
	case errors.Is(context.Cause(ctx), context.Canceled):
		return err
	case !answered:
		return refusal{ErrUnreachable, fmt.Errorf("%w: %w", ErrUnreachable, err)}
	case apierrors.IsNotFound(err):
		return refusal{inspect.ErrNotFound, err}
	case apierrors.IsServiceUnavailable(err), apierrors.IsTimeout(err), apierrors.IsServerTimeout(err), apierrors.IsTooManyRequests(err):
		return refusal{ErrUnreachable, err}
	}
	return err
}
