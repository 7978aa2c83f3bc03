package loop

import (
	"bytes"
	"io"
	"net/http"

	authentication "k8s.io/api/authentication/v1"
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

// Writes reports whether the request may change something.
func (r *Request) Writes() bool { return r.Method != http.MethodGet }

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

func (r *Response) http(of *http.Request) (*http.Response, error) {
	if r.Err != nil {
		return nil, r.Err
	}
	return &http.Response{
		StatusCode: r.Code, Status: http.StatusText(r.Code), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader(r.Body)),
		ContentLength: int64(len(r.Body)), Request: of,
	}, nil
}

// Exchange is a request of a run and its response.
type Exchange struct {
	Request  Request
	Response Response
}
