package main

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/setpoint-dev/setpoint"
	"github.com/setpoint-dev/setpoint/setpointtest"
)

// market is a fake of the rate service: what a euro is worth, or nothing while it is down.
type market struct {
	Rates map[string]string
	Down  bool
}

// RoundTrip responds as the service does. It implements http.RoundTripper.
func (m *market) RoundTrip(r *http.Request) (*http.Response, error) {
	if m.Down {
		return nil, errors.New("connection refused")
	}
	currency := r.URL.Query().Get("symbols")
	body := io.NopCloser(strings.NewReader(fmt.Sprintf(`{"rates":{%q:%s}}`, currency, m.Rates[currency])))
	return &http.Response{StatusCode: http.StatusOK, Body: body, Header: http.Header{}, Request: r}, nil
}

// TestEveryOrderOfEvents edits the currency, changes the rate, stops the service, and crashes, in any order.
func TestEveryOrderOfEvents(t *testing.T) {
	m := &market{Rates: map[string]string{"USD": "1.1", "CHF": "0.9"}}
	app := setpoint.New("exchangerate")
	addControllers(app, &rateService{address: "http://rates.test", client: &http.Client{Transport: m}}, time.Hour)
	rate := &ExchangeRate{Spec: ExchangeRateSpec{Currency: "USD"}}
	rate.Name = "rate"
	setpointtest.Explore(t, app, setpointtest.Exploration{
		Objects: []any{rate},
		Edits: []setpointtest.Edit{
			{Name: "in francs", Of: rate, Patch: "spec: {currency: CHF}"},
			{Name: "a dearer euro", Of: m, Patch: "Rates: {USD: '1.2'}"},
			{Name: "the service is down", Of: m, Patch: "Down: true"},
			{Name: "delete it", Of: rate, Delete: true},
		},
		External: m,
		Invariants: []setpointtest.Invariant{
			{Name: "the rate is of its currency", In: ofItsCurrency},
			{Name: "the ConfigMap is published", AtRest: published(m)},
		},
		Unchecked: []string{
			"SameEnd", "Desired", // The rate is that of the last call, so the end depends on when it was.
			"Reconciled", // While the service is down, every call fails.
		},
		Bounds: setpointtest.Bounds{Edits: 2, Crashes: 1, Time: 10 * time.Minute},
	})
}

// ofItsCurrency checks that no ConfigMap mixes the rate of one currency with the name of another.
func ofItsCurrency(s *setpointtest.State) error {
	for _, c := range setpointtest.List[corev1.ConfigMap](s) {
		if rate := c.Data["rate"]; (rate == "0.9") != (c.Data["currency"] == "CHF") {
			return fmt.Errorf("a euro is %s %s", rate, c.Data["currency"])
		}
	}
	return nil
}

// published checks that there is a ConfigMap. While the service is up, it has what the status says, in the wanted currency:
// before, a write of the ConfigMap may be stored whose status is not.
func published(m *market) func(s *setpointtest.State) error {
	return func(s *setpointtest.State) error {
		for _, e := range setpointtest.List[ExchangeRate](s) {
			last, c := e.Status.LastRate, setpointtest.Get[corev1.ConfigMap](s, e.Namespace, e.Name)
			switch {
			case m.Down && (c != nil || last == LastRate{}):
			case c == nil || c.Data["rate"] != last.Rate || c.Data["currency"] != last.Currency:
				return fmt.Errorf("the last rate is %v, and the ConfigMap %v", last, c)
			case last.Currency != e.Spec.Currency:
				return fmt.Errorf("%s has the rate of %q, and wants that of %s", e.Name, last.Currency, e.Spec.Currency)
			}
		}
		return nil
	}
}
