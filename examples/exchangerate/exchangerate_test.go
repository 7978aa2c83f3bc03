package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/setpoint-dev/setpoint"
	"github.com/setpoint-dev/setpoint/setpointtest"
)

// newReadyService is a rate service that returns the same response to every request.
func newReadyService(t *testing.T, status int, body string) *rateService {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.String() != "/v1/latest?symbols=USD" {
			t.Errorf("asked for %s", r.URL)
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}))
	t.Cleanup(server.Close)
	return &rateService{address: server.URL + "/v1/"}
}

// handleRate calls a handler of the app for a rate in dollars.
func handleRate(t *testing.T, s *rateService, handler string, last LastRate, options ...setpointtest.Option) setpointtest.Result[ExchangeRate] {
	t.Helper()
	app := setpoint.New("exchangerate")
	addControllers(app, s, time.Hour)
	object := &ExchangeRate{Spec: ExchangeRateSpec{Currency: "USD"}, Status: ExchangeRateStatus{LastRate: last}}
	object.Name, object.Namespace = "dollar", "shop"
	return setpointtest.Handle(t, app, handler, object, options...)
}

func TestRatesAreWrittenAsTheServiceWritesThem(t *testing.T) {
	for body, want := range map[string]string{
		`{"rates":{"USD":1.1901}}`:                             "1.1901",
		`{"rates":{"USD":1.10,"CHF":0.9}}`:                     "1.10",
		`{"base":"EUR","date":"2026-01-02","rates":{"USD":1}}`: "1",
	} {
		r := handleRate(t, newReadyService(t, http.StatusOK, body), "publish", LastRate{})
		if r.Err != nil || len(r.Applied) != 1 {
			t.Fatalf("%s: %v, applied %v", body, r.Err, r.Applied)
		}
		var got corev1.ConfigMap
		r.Applied[0].As(t, &got)
		if diff := cmp.Diff(map[string]string{"rate": want, "currency": "USD"}, got.Data); diff != "" || got.Name != "dollar" || r.Applied[0].Unowned {
			t.Errorf("%s: %s, in %q (-want +got):\n%s", body, want, got.Name, diff)
		}
		if r.Object.Status.LastRate != (LastRate{Rate: want, Currency: "USD"}) {
			t.Errorf("%s: status %+v", body, r.Object.Status)
		}
	}
}

func TestTheServiceFails(t *testing.T) {
	gone := httptest.NewServer(nil)
	gone.Close()
	for name, c := range map[string]struct {
		service *rateService
		want    string
	}{
		"down":             {&rateService{address: gone.URL}, "get the rate of USD: "},
		"out of order":     {newReadyService(t, http.StatusServiceUnavailable, ""), "get the rate of USD: 503 Service Unavailable"},
		"nonsense":         {newReadyService(t, http.StatusOK, "<html>"), "invalid response of the rate service for USD: "},
		"no number":        {newReadyService(t, http.StatusOK, `{"rates":{"USD":"much"}}`), "invalid response of the rate service for USD: "},
		"no rates":         {newReadyService(t, http.StatusOK, `{}`), "the rate service has no rate of USD"},
		"another currency": {newReadyService(t, http.StatusOK, `{"rates":{"CHF":1}}`), "the rate service has no rate of USD"},
		"worth nothing":    {newReadyService(t, http.StatusOK, `{"rates":{"USD":0}}`), "returned an invalid rate: 0 USD"},
		"too large":        {newReadyService(t, http.StatusOK, `{"rates":{"USD":1e999}}`), "returned an invalid rate: 1e999 USD"},
	} {
		r := handleRate(t, c.service, "publish", LastRate{Rate: "1.1", Currency: "USD"})
		if r.Err == nil || !strings.Contains(r.Err.Error(), c.want) || r.Applied != nil {
			t.Errorf("%s: got %v, applied %v; want an error about %q", name, r.Err, r.Applied, c.want)
		}
	}
}

func TestEventOnNewRate(t *testing.T) {
	s := newReadyService(t, http.StatusOK, `{"rates":{"USD":1.2}}`)
	for last, want := range map[LastRate]int{
		{}:                             1,
		{Rate: "1.1", Currency: "USD"}: 1,
		{Rate: "1.2", Currency: "CHF"}: 1,
		{Rate: "1.2", Currency: "USD"}: 0,
	} {
		r := handleRate(t, s, "publish", last, setpointtest.Reason(setpoint.ReasonTimer))
		if r.Err != nil || len(r.Events) != want {
			t.Errorf("after %+v: %v, events %v", last, r.Err, r.Events)
		}
	}
}

// Restoring the last good rate needs no request to the service.
func TestLastGoodRateIsRestored(t *testing.T) {
	r := handleRate(t, &rateService{}, "restore", LastRate{Rate: "1.1", Currency: "CHF"}, setpointtest.Reason(setpoint.ReasonDrift))
	if r.Err != nil || len(r.Applied) != 1 {
		t.Fatalf("%v, applied %v", r.Err, r.Applied)
	}
	var got corev1.ConfigMap
	r.Applied[0].As(t, &got)
	if diff := cmp.Diff(map[string]string{"rate": "1.1", "currency": "CHF"}, got.Data); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if r = handleRate(t, &rateService{}, "restore", LastRate{}, setpointtest.Reason(setpoint.ReasonDrift)); r.Err != nil || r.Applied != nil {
		t.Errorf("without a good rate: %v, applied %v", r.Err, r.Applied)
	}
}

func TestTheAddress(t *testing.T) {
	for address, want := range map[string]string{
		"https://rates.example.com/v1": "",
		"http://localhost:8000":        "",
		"":                             "--rates or $RATES",
		"rates.example.com":            "must be a URL",
		"ftp://rates.example.com":      "must be a URL",
		"http://a b":                   "invalid character",
	} {
		err := (&rateService{address: address}).check(t.Context())
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want an error about %q", address, err, want)
		}
	}
}

// deploy.yaml has what `exchangerate rbac --namespace exchangerate` prints, as it
// stands.
func TestDeployManifestMatchesRBAC(t *testing.T) {
	app := setpoint.New("exchangerate")
	addControllers(app, &rateService{}, time.Hour)
	inside := setpoint.Options{Namespace: "exchangerate", LeaderElection: setpoint.LeaderElection{Enabled: true}, InspectAddress: "auto"}
	rbac, err := app.RBAC(t.Context(), "exchangerate", inside)
	if err != nil {
		t.Fatal(err)
	}
	deploy, err := os.ReadFile("deploy.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(deploy), "---\n"+string(rbac)+"---\n") {
		t.Errorf("deploy.yaml has other permissions than it takes; put this there, between lines of three dashes:\n%s", rbac)
	}
}
