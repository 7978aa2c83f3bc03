package loop

import (
	"errors"
	"fmt"
	"net/http"

	"k8s.io/apimachinery/pkg/runtime"
)

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
	if t.request != nil || t.diverged != nil {
		return nil, errStopped
	}
	request, err := newRequest(r)
	if err != nil {
		return nil, err
	}
	if len(t.exchanges) == 0 {
		t.request = &request
		t.stop()
		return nil, errStopped
	}
	known := &t.exchanges[0]
	if !request.equal(&known.Request) {
		t.abort(fmt.Errorf("the run is not repeatable: it requests %s with %q instead of %s with %q",
			&request, request.Body, &known.Request, known.Request.Body))
		return nil, errStopped
	}
	t.exchanges = t.exchanges[1:]
	t.served()
	return known.Response.http(r)
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
