package loop

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"

	authentication "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
)

// Request is a request to the API server.
type Request struct {
	Method string
	// Target is the path and the query.
	Target string
	// ContentType is that of the body, Accept that of the response.
	ContentType, Accept string
	// User is impersonated; empty for none.
	User string
	Body []byte
}

// newRequest reads a request of the client.
func newRequest(r *http.Request) (Request, error) {
	request := Request{
		Method: r.Method, Target: r.URL.RequestURI(), ContentType: r.Header.Get("Content-Type"), Accept: r.Header.Get("Accept"),
		User: r.Header.Get(authentication.ImpersonateUserHeader),
	}
	if r.Body == nil {
		return request, nil
	}
	defer func() { _ = r.Body.Close() }() // Reading it has shown all errors.
	var err error
	request.Body, err = io.ReadAll(r.Body)
	return request, err
}

// HTTP returns the request for a server.
func (r *Request) HTTP() (*http.Request, error) {
	h, err := http.NewRequest(r.Method, "http://explored"+r.Target,
		bytes.NewReader(r.Body)) //nolint:noctx // The server runs in the caller's goroutine.
	if err != nil {
		return nil, err
	}
	for name, value := range map[string]string{"Content-Type": r.ContentType, "Accept": r.Accept,
		authentication.ImpersonateUserHeader: r.User} {
		if value != "" {
			h.Header.Set(name, value)
		}
	}
	return h, nil
}

// equal reports whether two requests are the same.
func (r *Request) equal(other *Request) bool {
	return r.Method == other.Method && r.Target == other.Target && r.ContentType == other.ContentType && r.Accept == other.Accept &&
		r.User == other.User && bytes.Equal(r.Body, other.Body)
}

// String returns such as "PUT /api/v1/namespaces/default/pods/a".
func (r *Request) String() string { return r.Method + " " + r.Target }

// Response is a response of the API server, or the error of a connection.
type Response struct {
	Code int
	Body []byte
	Err  error
}

// NewResponse reads a response of a server.
func NewResponse(r *http.Response) (Response, error) {
	defer func() { _ = r.Body.Close() }() // Reading it has shown all errors.
	body, err := io.ReadAll(r.Body)
	return Response{Code: r.StatusCode, Body: body}, err
}

func (r *Response) toHTTP(of *http.Request) *http.Response {
	return &http.Response{
		StatusCode: r.Code, Status: http.StatusText(r.Code), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader(r.Body)),
		ContentLength: int64(len(r.Body)), Request: of,
	}
}

// Exchange is a request of a run and its response.
type Exchange struct {
	Request  Request
	Response Response
}

// errStopped ends a run at a request whose response is not known yet.
var errStopped = errors.New("the run is stopped at this request")

// transport gives the requests of a run their known responses. At the first other request it stops the
// run: it ends the context, so that nothing more is sent or called, and what the run then does is
// dropped.
type transport struct {
	exchanges []Exchange
	// served is called when an exchange is used, stop ends the context of the run.
	served func()
	stop   func()

	request  *Request
	diverged error
}

// begin starts a run.
func (t *transport) begin(exchanges []Exchange, served, stop func()) {
	*t = transport{exchanges: exchanges, served: served, stop: stop}
}

// abort ends the run and the search: it cannot go on.
func (t *transport) abort(err error) {
	t.diverged = err
	t.stop()
}

// RoundTrip returns the known response.
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	request, err := newRequest(r)
	if err != nil {
		return nil, err
	}
	response, err := t.send(request)
	if err != nil {
		return nil, err
	}
	return response.toHTTP(r), nil
}

// send returns the known response, or its error.
func (t *transport) send(request Request) (Response, error) {
	if t.request != nil || t.diverged != nil {
		return Response{}, errStopped
	}
	if len(t.exchanges) == 0 {
		t.request = &request
		t.stop()
		return Response{}, errStopped
	}
	known := &t.exchanges[0]
	if !request.equal(&known.Request) {
		t.abort(fmt.Errorf("the run is not repeatable: it requests %s with %q instead of %s with %q",
			&request, request.Body, &known.Request, known.Request.Body))
		return Response{}, errStopped
	}
	t.exchanges = t.exchanges[1:]
	t.served()
	return known.Response, known.Response.Err
}

// newClient returns a client of the transport, without limits and retries of its own.
func newClient(transport http.RoundTripper) (rest.Interface, error) {
	config := &rest.Config{Host: "http://explored", QPS: -1, WarningHandler: rest.NoWarnings{}}
	config.NegotiatedSerializer = noSerializer{}
	return rest.UnversionedRESTClientForConfigAndClient(config, &http.Client{Transport: transport})
}

// noSerializer is for a client whose requests and responses stay bytes.
type noSerializer struct{ runtime.NegotiatedSerializer }

// SupportedMediaTypes returns JSON, which the client needs to know.
func (noSerializer) SupportedMediaTypes() []runtime.SerializerInfo {
	return []runtime.SerializerInfo{{MediaType: runtime.ContentTypeJSON}}
}

// EncoderForVersion returns no encoder.
func (noSerializer) EncoderForVersion(runtime.Encoder, runtime.GroupVersioner) runtime.Encoder {
	return nil
}

// DecoderToVersion returns no decoder.
func (noSerializer) DecoderToVersion(runtime.Decoder, runtime.GroupVersioner) runtime.Decoder {
	return nil
}
