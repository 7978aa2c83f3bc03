package wire

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/setpoint-dev/setpoint/internal/call/roundtrip"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// client is the Source of another process.
type client struct {
	name       string
	base       *url.URL
	credential Credential
	http       *http.Client
	// wait is the timeout of a request other than a long poll.
	wait time.Duration
}

var _ inspect.CallSource = (*client)(nil)

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

// Name returns the name given to NewClient.
func (c *client) Name() string { return c.name }

// Several processes may have the same name, so each result gets that of the client.

// Process implements inspect.Source.
func (c *client) Process(ctx context.Context) (inspect.Process, error) {
	found, err := get[inspect.Process](ctx, c, pathProcess, arguments{})
	found.Name = c.name
	return found, err
}

// Controllers implements inspect.Source.
func (c *client) Controllers(ctx context.Context) ([]inspect.Controller, error) {
	found, err := get[[]inspect.Controller](ctx, c, pathControllers, arguments{})
	for i := range found {
		found[i].Process = c.name
	}
	return found, err
}

// Objects implements inspect.Source.
func (c *client) Objects(ctx context.Context, controller string, q inspect.Query) (inspect.Page, error) {
	found, err := get[inspect.Page](ctx, c, pathObjects, arguments{controller: controller, query: q})
	for i := range found.Objects {
		found.Objects[i].Process = c.name
	}
	return found, err
}

// States implements inspect.Source.
func (c *client) States(ctx context.Context, ref object.Ref) ([]inspect.ObjectState, error) {
	found, err := get[[]inspect.ObjectState](ctx, c, pathAbout, arguments{ref: ref})
	for i := range found {
		found[i].Process = c.name
	}
	return found, err
}

// Runs implements inspect.Source.
func (c *client) Runs(ctx context.Context, ref object.Ref, limit int) ([]inspect.Run, error) {
	found, err := get[[]inspect.Run](ctx, c, pathRuns, arguments{ref: ref, limit: limit})
	for i := range found {
		found[i].Process = c.name
	}
	return found, err
}

// Reviews implements inspect.Source.
func (c *client) Reviews(ctx context.Context, controller string, detailed bool) ([]inspect.Run, error) {
	found, err := get[[]inspect.Run](ctx, c, pathReviews, arguments{controller: controller, detailed: detailed})
	for i := range found {
		found[i].Process = c.name
	}
	return found, err
}

// Run implements inspect.Source.
func (c *client) Run(ctx context.Context, id uint64) (inspect.Run, error) {
	found, err := get[inspect.Run](ctx, c, pathRuns+"/"+strconv.FormatUint(id, 10), arguments{})
	found.Process = c.name
	return found, err
}

// RunWithTokens implements inspect.CallSource.
func (c *client) RunWithTokens(ctx context.Context, id uint64) (inspect.Run, error) {
	found, err := get[inspect.Run](ctx, c, pathRuns+"/"+strconv.FormatUint(id, 10), arguments{tokens: true})
	found.Process = c.name
	return found, err
}

// Plan implements inspect.Source.
func (c *client) Plan(ctx context.Context, controller string, ref object.Ref, edited json.RawMessage) (found inspect.Plan, err error) {
	to := endpoint{method: http.MethodPost, path: pathPlan, limit: maxPlan + c.wait}
	if edited != nil {
		to.path, to.body = pathPlanEdited, edited
	}
	err = c.call(ctx, to, arguments{controller: controller, ref: ref}, &found)
	return found, err
}

// SetLogLevel implements inspect.Source.
func (c *client) SetLogLevel(ctx context.Context, level string) error {
	return c.call(ctx, endpoint{method: http.MethodPost, path: pathLogLevel, limit: c.wait}, arguments{name: level}, &struct{}{})
}

// Diagnostic implements inspect.Source.
func (c *client) Diagnostic(ctx context.Context, name string) ([]byte, error) {
	return get[[]byte](ctx, c, pathDiagnostics, arguments{name: name})
}

// Await implements inspect.Source by long polling.
func (c *client) Await(ctx context.Context, since uint64) (uint64, error) {
	for {
		var found revision
		err := c.call(ctx, endpoint{method: http.MethodGet, path: pathRevision, limit: maxPoll + c.wait}, arguments{since: since}, &found)
		if err != nil || found.Revision != since {
			return found.Revision, err
		}
	}
}

func get[T any](ctx context.Context, c *client, path string, a arguments) (found T, err error) {
	err = c.call(ctx, endpoint{method: http.MethodGet, path: path, limit: c.wait}, a, &found)
	return found, err
}

// endpoint is a path with its timeout, and the body of the request; nil for none.
type endpoint struct {
	method, path string
	limit        time.Duration
	body         []byte
}

// call sends a request with a timeout, since a stopped process still accepts connections.
func (c *client) call(ctx context.Context, e endpoint, a arguments, into any) error {
	limited, cancel := context.WithTimeout(ctx, e.limit)
	defer cancel()
	err := c.exchange(limited, e, a, into)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return fmt.Errorf("read the process %s: no response within %s: %w", c.name, e.limit, err)
	}
	return err
}

// exchange sends a request and decodes the response.
func (c *client) exchange(ctx context.Context, e endpoint, a arguments, into any) error {
	return c.open(ctx, e, a, func(response *http.Response) error {
		body, err := c.read(ctx, response)
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
}

// open sends a request and reads the response with a function. If the token is rejected and there is a new one, it
// retries once.
func (c *client) open(ctx context.Context, e endpoint, a arguments, read func(*http.Response) error) error {
	token, err := c.token(ctx, "")
	if err != nil {
		return err
	}
	response, err := c.roundTrip(ctx, e, a, token)
	if err != nil {
		return err
	}
	if response.StatusCode == http.StatusUnauthorized {
		if renewed, err := c.token(ctx, token); err != nil || renewed != token {
			_ = response.Body.Close()
			if err != nil {
				return err
			}
			if response, err = c.roundTrip(ctx, e, a, renewed); err != nil {
				return err
			}
		}
	}
	defer func() { _ = response.Body.Close() }()
	return read(response)
}

// token returns the token to send.
func (c *client) token(ctx context.Context, refused string) (string, error) {
	token, err := c.credential.Token(ctx, refused)
	if err != nil && ctx.Err() == nil {
		err = fmt.Errorf("read the process %s: %w", c.name, err)
	}
	return token, err
}

// roundTrip sends one request.
func (c *client) roundTrip(ctx context.Context, e endpoint, a arguments, token string) (*http.Response, error) {
	at := c.base.JoinPath(Prefix, e.path)
	at.RawQuery = a.values().Encode()
	//nolint:gosec // The address was published by the process, to its own user or in its Lease.
	request, err := http.NewRequestWithContext(ctx, e.method, at.String(), bytes.NewReader(e.body))
	if err != nil {
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

// read reads a response.
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

// responseError converts an error response.
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
