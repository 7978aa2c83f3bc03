package server

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/admission"
)

// Events are written for objects that exist, and for the reviewed one alone.
func TestEventsOfReviews(t *testing.T) {
	const pod = `{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a","namespace":"n","uid":"7"}}`
	denied := &hook.Denial{Message: "no"}
	elsewhere := hook.ObjectEvent{APIVersion: "v1", Kind: "Pod", Namespace: "n", Name: "other"}
	for name, c := range map[string]struct {
		members string
		denial  *hook.Denial
		want    []hook.ObjectEvent
	}{
		"a creation":          {`"operation":"CREATE","name":"a","namespace":"n","object":` + pod, nil, []hook.ObjectEvent{{APIVersion: "v1", Kind: "Pod", Namespace: "n", Name: "a"}, elsewhere}},
		"a refused creation":  {`"operation":"CREATE","name":"a","namespace":"n","object":` + pod, denied, []hook.ObjectEvent{elsewhere}},
		"one without a name":  {`"operation":"CREATE","namespace":"n","object":{}`, nil, []hook.ObjectEvent{elsewhere}},
		"an update":           {`"operation":"UPDATE","name":"a","namespace":"n","object":{},"oldObject":` + pod, nil, []hook.ObjectEvent{{APIVersion: "v1", Kind: "Pod", Namespace: "n", Name: "a", UID: "7"}, elsewhere}},
		"a refused deletion":  {`"operation":"DELETE","name":"a","namespace":"n","oldObject":` + pod, denied, []hook.ObjectEvent{{APIVersion: "v1", Kind: "Pod", Namespace: "n", Name: "a", UID: "7"}, elsewhere}},
		"a dry run of either": {`"operation":"DELETE","name":"a","namespace":"n","dryRun":true,"oldObject":` + pod, nil, nil},
	} {
		observer := &recordingObserver{}
		s := New(Options{Observer: observer})
		s.Set([]*admission.Program{programOf(func(context.Context, *hook.ReviewRequest) (*hook.ReviewResponse, error) {
			return &hook.ReviewResponse{Denial: c.denial, Events: []hook.ObjectEvent{{}, elsewhere}}, nil
		})})
		if w := post(s, "/admit/web/check", reviewOf(c.members)); w.Code != http.StatusOK {
			t.Fatalf("%s: %d, %s", name, w.Code, w.Body)
		}
		if !slices.Equal(observer.events, c.want) {
			t.Errorf("%s: %+v, want %+v", name, observer.events, c.want)
		}
	}
}

// Fault S5: where the API server shows a certificate, a caller without one of its CA gets no response.
func TestClientCertificates(t *testing.T) {
	ca, others := newIssuer(t), newIssuer(t)
	observer := &recordingObserver{}
	s := serve(t, Options{Observer: observer, ClientCAs: func() (*x509.CertPool, error) { return ca.pool, nil }}, programOf(allow))
	show := func(by *issuer) *http.Client {
		client := s.client(t)
		if by != nil {
			der := by.sign(t, &x509.Certificate{
				SerialNumber: by.cert.SerialNumber, NotAfter: time.Now().Add(time.Hour), ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
			})
			client.Transport.(*http.Transport).TLSClientConfig.Certificates = []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: by.key}}
		}
		return client
	}
	for _, by := range []*issuer{nil, others} {
		if got, err := s.post(show(by), "/admit/web/check", reviewOf(`"operation":"DELETE"`)); err == nil {
			t.Errorf("a stranger is answered: %d, %s", got.code, got.body)
		}
	}
	got, err := s.post(show(ca), "/admit/web/check", reviewOf(`"operation":"DELETE"`))
	if err != nil || got.code != http.StatusOK {
		t.Errorf("%d, %s, %v", got.code, got.body, err)
	}
	if len(observer.records) != 1 || !observer.records[0].Authenticated {
		t.Errorf("%+v", observer.records)
	}
}
