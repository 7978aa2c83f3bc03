package wire

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/setpoint-dev/setpoint/internal/call/roundtrip"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/recording"
)

type client struct {
	name       string
	base       *url.URL
	credential Credential
	http       *http.Client
	// wait is the timeout of a request other than a long poll.
	wait time.Duration
}

// NewClient returns a Source that reads the Handler at base, such as http://127.0.0.1:8082.
// A nil transport is http.DefaultTransport. An empty token is not sent.
func NewClient(name string, base *url.URL, transport http.RoundTripper, credential Credential) inspect.Source {
	if transport == nil {
		transport = http.DefaultTransport
	}
	return &client{name: name, base: base, credential: credential, wait: maxWait, http: &http.Client{
		// Another process may listen at the address by now, so connections are not reused.
		Transport: roundtrip.NewTransport(transport),
		// Redirects are not followed.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

func (c *client) Name() string { return c.name }

// Several processes may have the same name, so each result gets that of the client.

func (c *client) Process(ctx context.Context) (inspect.Process, error) {
	found, err := get[inspect.Process](ctx, c, pathProcess, arguments{})
	found.Name = c.name
	return found, err
}

func (c *client) Controllers(ctx context.Context) ([]inspect.Controller, error) {
	return list(ctx, c, pathControllers, arguments{}, func(one *inspect.Controller) *string { return &one.Process })
}

func (c *client) Objects(ctx context.Context, controller string, q inspect.Query) (inspect.Page, error) {
	found, err := get[inspect.Page](ctx, c, pathObjects, arguments{Controller: controller, Query: q})
	for i := range found.Objects {
		found.Objects[i].Process = c.name
	}
	return found, err
}

func (c *client) States(ctx context.Context, ref object.Ref) ([]inspect.ObjectState, error) {
	return list(ctx, c, pathAbout, arguments{Ref: ref}, func(one *inspect.ObjectState) *string { return &one.Process })
}

func (c *client) Runs(ctx context.Context, ref object.Ref, limit int) ([]inspect.Run, error) {
	return list(ctx, c, pathRuns, arguments{Ref: ref, Limit: limit}, processOf)
}

func (c *client) Reviews(ctx context.Context, controller string, detailed bool) ([]inspect.Run, error) {
	return list(ctx, c, pathReviews, arguments{Controller: controller, Detailed: detailed}, processOf)
}

func processOf(run *inspect.Run) *string { return &run.Process }

func (c *client) Run(ctx context.Context, id uint64, tokens bool) (inspect.Run, error) {
	found, err := get[inspect.Run](ctx, c, pathRun, arguments{ID: id, Tokens: tokens})
	found.Process = c.name
	return found, err
}

func (c *client) Plan(ctx context.Context, controller string, ref object.Ref, edited json.RawMessage) (found inspect.Plan, err error) {
	err = c.call(ctx, pathPlan, maxPlan+c.wait, arguments{Controller: controller, Ref: ref, Edited: edited}, &found)
	return found, err
}

func (c *client) SetLogLevel(ctx context.Context, level string) error {
	return c.call(ctx, pathLogLevel, c.wait, arguments{Name: level}, &struct{}{})
}

func (c *client) Diagnostic(ctx context.Context, name string) ([]byte, error) {
	return get[[]byte](ctx, c, pathDiagnostics, arguments{Name: name})
}

// Await implements inspect.Source by long polling.
func (c *client) Await(ctx context.Context, since uint64) (now uint64, err error) {
	for now = since; now == since && err == nil; {
		err = c.call(ctx, pathRevision, maxPoll+c.wait, arguments{Since: since}, &now)
	}
	return now, err
}

// maxSilence is how long a recording may be silent.
const maxSilence = 6 * recording.StreamInterval

// errSilent is the cause of the end of a recording that was silent.
var errSilent = fmt.Errorf("it has sent nothing for %s", maxSilence)

// Record implements inspect.Source. It returns nil if the process ends the recording.
func (c *client) Record(ctx context.Context, filter recording.Filter, out io.Writer) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	silence := time.AfterFunc(maxSilence, func() { cancel(errSilent) })
	defer silence.Stop()
	err := c.open(ctx, pathRecording, arguments{Filter: filter},
		func(response *http.Response) error {
			if response.StatusCode != http.StatusOK {
				body, err := c.read(ctx, response)
				return errors.Join(err, c.responseError(response.StatusCode, body))
			}
			_, err := io.Copy(out, &aliveReader{response.Body, silence})
			return err
		})
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// aliveReader postpones a timer with each read.
type aliveReader struct {
	io.Reader

	timer *time.Timer
}

func (r *aliveReader) Read(into []byte) (int, error) {
	n, err := r.Reader.Read(into)
	r.timer.Reset(maxSilence)
	return n, err
}

func get[T any](ctx context.Context, c *client, path string, a arguments) (found T, err error) {
	err = c.call(ctx, path, c.wait, a, &found)
	return found, err
}

// list is get with the name of the client in each result.
func list[T any](ctx context.Context, c *client, path string, a arguments, process func(*T) *string) ([]T, error) {
	found, err := get[[]T](ctx, c, path, a)
	for i := range found {
		*process(&found[i]) = c.name
	}
	return found, err
}

// call sends a request with a timeout, since a stopped process still accepts connections.
func (c *client) call(ctx context.Context, path string, limit time.Duration, a arguments, into any) error {
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	err := c.open(limited, path, a, func(response *http.Response) error {
		body, err := c.read(limited, response)
		switch {
		case err != nil:
			return err
		case response.StatusCode != http.StatusOK:
			return c.responseError(response.StatusCode, body)
		}
		if err := json.Unmarshal(body, into); err != nil {
			return fmt.Errorf("invalid response of the process %s for %s: %w", c.name, Prefix, err)
		}
		return nil
	})
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return fmt.Errorf("read the process %s: no response within %s: %w", c.name, limit, err)
	}
	return err
}

// open sends a request and reads the response with a function. If the token is rejected and there is a new one, it
// retries once.
func (c *client) open(ctx context.Context, path string, a arguments, read func(*http.Response) error) error {
	token, err := c.token(ctx, "")
	if err != nil {
		return err
	}
	response, err := c.roundTrip(ctx, path, a, token)
	if err != nil {
		return err
	}
	if response.StatusCode == http.StatusUnauthorized {
		if renewed, err := c.token(ctx, token); err != nil || renewed != token {
			_ = response.Body.Close()
			if err != nil {
				return err
			}
			if response, err = c.roundTrip(ctx, path, a, renewed); err != nil {
				return err
			}
		}
	}
	defer func() { _ = response.Body.Close() }()
	return read(response)
}

func (c *client) token(ctx context.Context, refused string) (string, error) {
	token, err := c.credential.Token(ctx, refused)
	if err != nil && ctx.Err() == nil {
		err = fmt.Errorf("read the process %s: %w", c.name, err)
	}
	return token, err
}

func (c *client) roundTrip(ctx context.Context, path string, a arguments, token string) (*http.Response, error) {
	var body bytes.Buffer
	encoder := json.NewEncoder(&body)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(a)
	//nolint:gosec // The address was published by the process, to its own user or in its Lease.
	request, invalid := http.NewRequestWithContext(ctx, http.MethodPost, c.base.JoinPath(Prefix, path).String(), &body)
	if err = cmp.Or(err, invalid); err != nil {
		return nil, fmt.Errorf("read the process %s: %w", c.name, err)
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := c.http.Do(request) //nolint:gosec // As above.
	if err == nil {
		return response, nil
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if failed, is := errors.AsType[*url.Error](err); is {
		err = failed.Err // The URL does not help the user.
	}
	return nil, fmt.Errorf("read the process %s: %w", c.name, err)
}

func (c *client) read(ctx context.Context, response *http.Response) ([]byte, error) {
	body, err := io.ReadAll(io.LimitReader(response.Body, maxResponse+1))
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil:
		return nil, fmt.Errorf("read the response of the process %s: %w", c.name, err)
	case len(body) > maxResponse:
		return nil, fmt.Errorf("the response of the process %s is longer than %d bytes", c.name, maxResponse)
	}
	return body, nil
}

func (c *client) responseError(status int, body []byte) error {
	var received errorBody
	if err := json.Unmarshal(body, &received); err != nil || received.Reason == "" {
		return fmt.Errorf("the process %s is not Setpoint, or has another version: status %d", c.name, status)
	}
	switch received.Reason {
	case reasonNotFound:
		return remoteError{received.Error, failure.ErrNotFound}
	case reasonVersion:
		return fmt.Errorf("the process %s has another version: %s", c.name, received.Error)
	case reasonUnauthorized, reasonForbidden, reasonClosed:
		return fmt.Errorf("the process %s denied the request: %s", c.name, received.Error)
	}
	return errors.New(received.Error)
}

// remoteError is an error of the other process that wraps a known kind.
type remoteError struct {
	message string
	kind    error
}

func (r remoteError) Error() string { return r.message }
func (r remoteError) Unwrap() error { return r.kind }
