package discovery

import (
	"errors"
	"net/http"
	"net/url"

	"github.com/setpoint-dev/setpoint/internal/dashboard/model"
	"github.com/setpoint-dev/setpoint/internal/dashboard/wire"
)

// newCrashedProcess returns a process that stopped without removing its entry. It is listed until
// a process with the same name starts.
func newCrashedProcess(name string) model.Source {
	return wire.NewClient(name, &url.URL{Scheme: "http"}, crashed{}, wire.Token(""))
}

// crashed is the transport to a crashed process.
type crashed struct{}

// RoundTrip implements http.RoundTripper.
func (crashed) RoundTrip(*http.Request) (*http.Response, error) {
	return nil, errors.New("it crashed or was killed")
}
