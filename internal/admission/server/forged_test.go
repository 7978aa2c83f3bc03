package server

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/admission"
)

// forgery is a webhook that must not be called, and what is recorded of it.
func forgery(t *testing.T, w admission.Webhook) (*Server, *recordingObserver) {
	t.Helper()
	observer := &recordingObserver{}
	s := New(Options{Observer: observer})
	w.Name = "check"
	w.Admitter = hook.AdmitterFunc(func(_ context.Context, r *hook.ReviewRequest) (*hook.ReviewResponse, error) {
		t.Errorf("the hook is asked about %+v", r)
		return &hook.ReviewResponse{Events: []hook.ObjectEvent{{}}}, nil
	})
	s.Set([]*admission.Program{{Name: "web", Webhooks: []admission.Webhook{w}}})
	return s, observer
}

// Fault S5: the server accepted a forged review: it called the hook, with its credentials, and
// recorded its events on any object.
func TestForgedReviews(t *testing.T) {
	pods := admission.Webhook{
		Rules:            []admission.Rule{{Group: "", Version: "v1", Resources: []string{"pods", "pods/status"}, Operations: []hook.Operation{hook.OperationCreate, hook.OperationUpdate}}},
		ExemptNamespaces: []string{"kube-system"},
		Objects:          &metav1.LabelSelector{MatchLabels: map[string]string{"app": "x"}},
	}
	const labelled = `"labels":{"app":"x"}`
	for name, c := range map[string]struct{ members, want string }{
		"an operation of no rule": {`"operation":"DELETE","oldObject":{"metadata":{` + labelled + `}}`, "no rule of check matches DELETE of pods"},
		"a part of no rule":       {`"operation":"CREATE","subResource":"exec","object":{"metadata":{` + labelled + `}}`, "no rule of check matches CREATE of pods/exec"},
		"another kind": {`"kind":{"group":"apps","version":"v1","kind":"Deployment"},"operation":"CREATE","object":{"metadata":{` + labelled + `}}`,
			"no rule of check matches CREATE"},
		"a spared namespace":    {`"operation":"CREATE","namespace":"kube-system","object":{"metadata":{` + labelled + `}}`, "does not review the namespace kube-system"},
		"other labels":          {`"operation":"CREATE","object":{"metadata":{"labels":{"app":"y"}}}`, "does not review objects with these labels"},
		"another name":          {`"operation":"CREATE","name":"a","object":{"metadata":{"name":"b",` + labelled + `}}`, `the name of the object is "b", that of the review "a"`},
		"another namespace":     {`"operation":"CREATE","namespace":"a","object":{"metadata":{"namespace":"b",` + labelled + `}}`, `the namespace of the object is "b"`},
		"an object of a kind":   {`"operation":"CREATE","object":{"kind":"Secret","metadata":{` + labelled + `}}`, `the kind of the object is "Secret"`},
		"an object of a group":  {`"operation":"CREATE","object":{"apiVersion":"apps/v1","metadata":{` + labelled + `}}`, `the apiVersion of the object is "apps/v1"`},
		"another old name":      {`"operation":"UPDATE","name":"a","object":{"metadata":{` + labelled + `}},"oldObject":{"metadata":{"name":"b"}}`, `the name of the object is "b"`},
		"another object before": {`"operation":"UPDATE","object":{"metadata":{"uid":"1",` + labelled + `}},"oldObject":{"metadata":{"uid":"2"}}`, `the UID of the object is "1", that of the old object "2"`},
		"labels that are none":  {`"operation":"CREATE","object":{"metadata":{"labels":7}}`, "must be an object, is a number"},
	} {
		t.Run(name, func(t *testing.T) {
			s, observer := forgery(t, pods)
			w := post(s, "/admit/web/check", reviewOf(c.members))
			if w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), c.want) {
				t.Errorf("%d: %s", w.Code, w.Body)
			}
			if len(observer.events) > 0 {
				t.Errorf("events %v", observer.events)
			}
		})
	}
}

// The server calls the hook for every form of review that an API server sends.
func TestGenuineReviews(t *testing.T) {
	all := []hook.Operation{hook.OperationCreate, hook.OperationUpdate, hook.OperationDelete, hook.OperationConnect}
	for name, c := range map[string]struct {
		rule    admission.Rule
		members string
	}{
		"a name to be made": {admission.Rule{Group: "", Version: "v1", Resources: []string{"pods"}, Operations: all}, `"operation":"CREATE","namespace":"a","object":{"metadata":{"generateName":"b-","namespace":"a"}}`},
		"a namespace": {admission.Rule{Group: "", Version: "v1", Resources: []string{"namespaces"}, Operations: all},
			`"kind":{"group":"","version":"v1","kind":"Namespace"},"resource":{"group":"","version":"v1","resource":"namespaces"},"operation":"CREATE","name":"a","namespace":"a","object":{"kind":"Namespace","metadata":{"name":"a"}}`},
		"a scale": {admission.Rule{Group: "apps", Version: "v1", Resources: []string{"deployments/scale"}, Operations: all},
			`"kind":{"group":"autoscaling","version":"v1","kind":"Scale"},"resource":{"group":"apps","version":"v1","resource":"deployments"},"subResource":"scale","operation":"UPDATE","name":"a","object":{"kind":"Scale"},"oldObject":{"kind":"Scale"}`},
		"an exec": {admission.Rule{Group: "", Version: "v1", Resources: []string{"pods/*"}, Operations: all},
			`"kind":{"group":"","version":"v1","kind":"PodExecOptions"},"subResource":"exec","operation":"CONNECT","name":"a","object":{"kind":"PodExecOptions","apiVersion":"v1"}`},
		"all":       {admission.Rule{Group: "*", Version: "*", Resources: []string{"*"}, Operations: []hook.Operation{"*"}}, `"operation":"DELETE","name":"a","oldObject":{"metadata":{"name":"a"}}`},
		"all parts": {admission.Rule{Group: "*", Version: "*", Resources: []string{"*/*"}, Operations: []hook.Operation{"*"}}, `"operation":"DELETE","name":"a","oldObject":{"metadata":{"name":"a"}}`},
	} {
		s := New(Options{})
		s.Set([]*admission.Program{{Name: "web", Webhooks: []admission.Webhook{{Name: "check", Rules: []admission.Rule{c.rule}, Admitter: hook.AdmitterFunc(allow)}}}})
		if w := post(s, "/admit/web/check", reviewOf(c.members)); w.Code != http.StatusOK {
			t.Errorf("%s: %d, %s", name, w.Code, w.Body)
		}
	}
}

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
		if got := observer.events; len(got) != len(c.want) {
			t.Errorf("%s: %+v", name, got)
			continue
		}
		for i, want := range c.want {
			if observer.events[i] != want {
				t.Errorf("%s: %+v, want %+v", name, observer.events[i], want)
			}
		}
	}
}

// Where the API server shows a certificate, a caller without one of its CA gets no response.
func TestClientCertificates(t *testing.T) {
	ca, others := newIssuer(t), newIssuer(t)
	observer := &recordedReviews{}
	s := serve(t, Options{Observer: observer, ClientCAs: func() (*x509.CertPool, error) { return ca.pool, nil }}, programOf(allow))
	show := func(by *issuer) *http.Client {
		client := s.client(t)
		if by != nil {
			der, key := by.sign(t, &x509.Certificate{
				SerialNumber: by.cert.SerialNumber, NotAfter: time.Now().Add(time.Hour), ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
			})
			client.Transport.(*http.Transport).TLSClientConfig.Certificates = []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}
		}
		return client
	}
	for _, by := range []*issuer{nil, others} {
		if got, err := s.post(show(by), "/admit/web/check", reviewOf(`"operation":"DELETE"`)); err == nil {
			t.Errorf("a stranger is answered: %d, %s", got.code, got.body)
		}
	}
	got, err := s.post(show(ca), "/admit/web/check", reviewOf(`"operation":"DELETE"`))
	if err != nil || got.code != http.StatusOK || got.protocol != 2 {
		t.Errorf("HTTP/%d: %d, %s, %v", got.protocol, got.code, got.body, err)
	}
	if len(observer.records) != 1 || !observer.records[0].Authenticated {
		t.Errorf("%+v", observer.records)
	}
}

// recordedReviews keeps what is recorded, of one call at a time.
type recordedReviews struct{ records []admission.ReviewRecord }

func (o *recordedReviews) Reviewed(one admission.ReviewRecord) { o.records = append(o.records, one) }
func (*recordedReviews) EventAt(string, hook.ObjectEvent)      {}
