package server

import (
	"bytes"
	"cmp"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/admission"
	"github.com/setpoint-dev/setpoint/internal/must"
)

// recordingObserver is an Observer that stores the events it receives.
type recordingObserver struct {
	sync.Mutex

	records []admission.ReviewRecord
	events  []hook.ObjectEvent
}

func (s *recordingObserver) Reviewed(o admission.ReviewRecord) {
	s.Lock()
	defer s.Unlock()
	s.records = append(s.records, o)
}

func (s *recordingObserver) EventAt(_ string, event hook.ObjectEvent) {
	s.Lock()
	defer s.Unlock()
	s.events = append(s.events, event)
}

func (s *recordingObserver) last() string {
	s.Lock()
	defer s.Unlock()
	if len(s.records) == 0 {
		return ""
	}
	o := s.records[len(s.records)-1]
	return fmt.Sprintf("%s/%s %s %s", o.Program, o.Webhook, o.Operation, o.Result)
}

// programOf has one webhook that mutates.
func programOf(do hook.AdmitterFunc) *admission.Program {
	return &admission.Program{Name: "web", Object: json.RawMessage(`{"kind":"C"}`), Webhooks: []admission.Webhook{{Name: "check", Mutates: true, Admitter: do}}}
}

// blocked has a webhook that says when it is called, and waits.
func blocked() (p *admission.Program, entered, release chan struct{}) {
	entered, release = make(chan struct{}, 3), make(chan struct{})
	return programOf(func(context.Context, *hook.ReviewRequest) (*hook.ReviewResponse, error) {
		entered <- struct{}{}
		<-release
		return &hook.ReviewResponse{}, nil
	}), entered, release
}

func allow(context.Context, *hook.ReviewRequest) (*hook.ReviewResponse, error) {
	return &hook.ReviewResponse{}, nil
}

func post(s http.Handler, path string, body []byte) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, path, bytes.NewReader(body))
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w
}

func responseOf(t *testing.T, body []byte) *admissionv1.AdmissionResponse {
	t.Helper()
	var review admissionv1.AdmissionReview
	must.Succeed(t, json.Unmarshal(body, &review))
	if review.Kind != reviewKind || review.APIVersion != reviewVersion || review.Response == nil {
		t.Fatalf("no review: %s", body)
	}
	return review.Response
}

func TestServerCallsWebhooks(t *testing.T) {
	var called *hook.ReviewRequest
	received := &recordingObserver{}
	s := New(Options{Observer: received})
	s.Set([]*admission.Program{programOf(func(_ context.Context, r *hook.ReviewRequest) (*hook.ReviewResponse, error) {
		called = r
		return &hook.ReviewResponse{Patch: json.RawMessage(`{"b":2}`), Events: []hook.ObjectEvent{{APIVersion: "v1", Kind: "Pod", Name: "x"}}}, nil
	})})
	w := post(s, "/admit/web/check?timeout=5s", reviewOf(`"operation":"UPDATE","object":{"a":1},"oldObject":{"a":0}`))
	response := responseOf(t, w.Body.Bytes())
	if w.Code != http.StatusOK || !response.Allowed || response.UID != "u" || string(response.Patch) != `[{"op":"add","path":"/b","value":2}]` {
		t.Errorf("%d: %s", w.Code, w.Body)
	}
	if called.Webhook != "check" || string(called.Controller) != `{"kind":"C"}` || string(called.Object) != `{"a":1}` || string(called.OldObject) != `{"a":0}` {
		t.Errorf("called %+v", called)
	}
	if received.last() != "web/check UPDATE mutated" || received.records[0].Err != nil || received.records[0].Duration < 0 || len(received.events) != 1 {
		t.Errorf("received %+v", received)
	}
	post(s, "/admit/web/check", reviewOf(`"operation":"CREATE","object":{"a":1},"dryRun":true`))
	if !called.DryRun || len(received.events) != 1 {
		t.Errorf("events of a dry run are recorded: %+v", received.events)
	}
}

func TestServerRefuses(t *testing.T) {
	create := reviewOf(`"operation":"CREATE","object":{}`)
	for name, c := range map[string]struct {
		path string
		body []byte
		code int
		want string
	}{
		"an unknown program":  {path: "/admit/other/check", code: 404, want: "no webhook at"},
		"an unknown webhook":  {path: "/admit/web/other", code: 404},
		"an unknown path":     {path: "/", code: 404},
		"an unknown probe":    {path: "/probe/other", code: 404},
		"a body too large":    {body: bytes.Repeat([]byte(" "), 2<<20), code: 413, want: "exceeds 1048576 bytes"},
		"a malformed probe":   {path: "/probe/web", body: []byte("{}"), code: 400, want: "malformed AdmissionReview"},
		"a probe too large":   {path: "/probe/web", body: bytes.Repeat([]byte(" "), 2<<20), code: 413},
		"a probe in order":    {path: "/probe/web", code: 200, want: admission.ProbeWarning},
		"an odd timeout":      {path: "/admit/web/check?timeout=soon", code: 200},
		"a timeout that is 0": {path: "/admit/web/check?timeout=0s", code: 200},
	} {
		t.Run(name, func(t *testing.T) {
			s := New(Options{MaxBody: 1 << 20})
			s.Set([]*admission.Program{programOf(allow)})
			body := c.body
			if body == nil {
				body = create
			}
			w := post(s, cmp.Or(c.path, "/admit/web/check"), body)
			if w.Code != c.code || !strings.Contains(w.Body.String(), c.want) {
				t.Errorf("%d: %s", w.Code, w.Body)
			}
		})
	}
}

func TestServerRefusesMalformedReviews(t *testing.T) {
	received := &recordingObserver{}
	s := New(Options{Observer: received})
	s.Set([]*admission.Program{programOf(allow)})
	for body, want := range malformedReviews() {
		w := post(s, "/admit/web/check", []byte(body))
		if w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), "webhook check of web: malformed AdmissionReview: ") ||
			!strings.Contains(w.Body.String(), want) || strings.Count(w.Body.String(), "\n") != 1 {
			t.Errorf("%q: %d, %s", body, w.Code, w.Body)
		}
		if received.last() != "web/check  error" {
			t.Errorf("received %s", received.last())
		}
	}
}

func TestServerHasNoResponse(t *testing.T) {
	fails := func(text string) hook.AdmitterFunc {
		return func(context.Context, *hook.ReviewRequest) (*hook.ReviewResponse, error) { return nil, errors.New(text) }
	}
	for name, c := range map[string]struct {
		do   hook.AdmitterFunc
		want string
	}{
		"an error": {fails("no\nanswer"), "webhook check of web: no; answer"},
		"a panic":  {func(context.Context, *hook.ReviewRequest) (*hook.ReviewResponse, error) { panic("ouch") }, "it panicked: ouch"},
		// Fault H4.
		"an exit": {func(context.Context, *hook.ReviewRequest) (*hook.ReviewResponse, error) {
			runtime.Goexit()
			return nil, nil
		}, "it called runtime.Goexit"},
		"nothing": {func(context.Context, *hook.ReviewRequest) (*hook.ReviewResponse, error) { return nil, nil }, "neither a response nor an error"},
		"nonsense": {func(context.Context, *hook.ReviewRequest) (*hook.ReviewResponse, error) {
			return &hook.ReviewResponse{JSONPatch: json.RawMessage(`{]`)}, nil
		}, "changes: DELETE has no object to change"},
		"too late": {
			func(ctx context.Context, _ *hook.ReviewRequest) (*hook.ReviewResponse, error) {
				<-ctx.Done()
				return nil, ctx.Err()
			}, "no response within ",
		},
		"a verdict too late": {
			func(ctx context.Context, _ *hook.ReviewRequest) (*hook.ReviewResponse, error) {
				<-ctx.Done()
				return &hook.ReviewResponse{}, nil
			}, "no response within ",
		},
		"a long error": {fails(strings.Repeat("long ", 1000)), "…"},
	} {
		t.Run(name, func(t *testing.T) {
			var log bytes.Buffer
			received := &recordingObserver{}
			s := New(Options{Observer: received, Log: slog.New(slog.NewTextHandler(&log, nil))})
			s.Set([]*admission.Program{programOf(c.do)})
			path := "/admit/web/check"
			if strings.HasSuffix(name, "too late") {
				path += "?timeout=20ms" // The others would be late too where the machine is slow.
			}
			w := post(s, path, reviewOf(`"operation":"DELETE"`))
			if w.Code != http.StatusInternalServerError || !strings.Contains(w.Body.String(), c.want) || strings.Count(w.Body.String(), "\n") != 1 {
				t.Errorf("%d: %s", w.Code, w.Body)
			}
			if received.last() != "web/check DELETE error" || received.records[0].Err == nil {
				t.Errorf("received %+v", received)
			}
			if !strings.Contains(log.String(), "webhook failed") || (name == "a panic" || name == "an exit") && !strings.Contains(log.String(), "server_test.go") {
				t.Errorf("log: %s", log.String())
			}
		})
	}
}

// TestServerLogsWhenItBeginsAndEnds: a webhook that fails all the time is no news.
func TestServerLogsWhenItBeginsAndEnds(t *testing.T) {
	var log bytes.Buffer
	fails := true
	s := New(Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
	s.Set([]*admission.Program{programOf(func(context.Context, *hook.ReviewRequest) (*hook.ReviewResponse, error) {
		if fails {
			return nil, errors.New("no")
		}
		return &hook.ReviewResponse{}, nil
	})})
	for range 3 {
		post(s, "/admit/web/check", reviewOf(`"operation":"DELETE"`))
	}
	fails = false
	for range 3 {
		post(s, "/admit/web/check", reviewOf(`"operation":"DELETE"`))
	}
	if got := log.String(); strings.Count(got, "\n") != 2 || !strings.Contains(got, "webhook failed") || !strings.Contains(got, "webhook recovered") {
		t.Errorf("log: %s", got)
	}
}

func TestResponseTimeout(t *testing.T) {
	for _, c := range []struct {
		query         string
		webhook, want time.Duration
	}{
		{"", 0, 9800 * time.Millisecond},
		{"", time.Second, 900 * time.Millisecond},
		{"?timeout=5s", 10 * time.Second, 4800 * time.Millisecond},
		{"?timeout=30s", 10 * time.Second, 9800 * time.Millisecond},
		{"?timeout=-1s", 10 * time.Second, 9800 * time.Millisecond},
	} {
		r := httptest.NewRequest(http.MethodPost, "/"+c.query, http.NoBody)
		if got := responseTimeout(r, c.webhook); got != c.want {
			t.Errorf("%q, %s: %s, want %s", c.query, c.webhook, got, c.want)
		}
	}
}

// TestServerBoundsReviewsInFlight: those above the bound wait for their turn, as long
// as they have time.
func TestServerBoundsReviewsInFlight(t *testing.T) {
	program, entered, release := blocked()
	s := New(Options{MaxReviews: 1})
	s.Set([]*admission.Program{program})
	first := make(chan int)
	go func() { first <- post(s, "/admit/web/check", reviewOf(`"operation":"DELETE"`)).Code }()
	<-entered
	w := post(s, "/admit/web/check?timeout=20ms", reviewOf(`"operation":"DELETE"`))
	if w.Code != http.StatusServiceUnavailable || !strings.Contains(w.Body.String(), "all 1 concurrent reviews are busy") {
		t.Errorf("%d: %s", w.Code, w.Body)
	}
	second := make(chan int)
	go func() { second <- post(s, "/admit/web/check", reviewOf(`"operation":"DELETE"`)).Code }()
	close(release)
	if a, b := <-first, <-second; a != 200 || b != 200 {
		t.Errorf("%d, %d", a, b)
	}
}

// issuer signs certificates for 127.0.0.1, all of one key.
type issuer struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pool *x509.CertPool
}

func newIssuer(t *testing.T) *issuer {
	t.Helper()
	a := &issuer{key: must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader)).In(t), pool: x509.NewCertPool()}
	a.cert = &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "ca"}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	a.cert = must.Get(x509.ParseCertificate(a.sign(t, a.cert))).In(t)
	a.pool.AddCert(a.cert)
	return a
}

func (a *issuer) sign(t *testing.T, template *x509.Certificate) []byte {
	t.Helper()
	return must.Get(x509.CreateCertificate(rand.Reader, template, a.cert, a.key.Public(), a.key)).In(t)
}

func (a *issuer) serving(t *testing.T, serial int64) *tls.Certificate {
	t.Helper()
	return &tls.Certificate{PrivateKey: a.key, Certificate: [][]byte{a.sign(t, &x509.Certificate{
		SerialNumber: big.NewInt(serial), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	})}}
}

// serving is a server on loopback, and a client that trusts it.
type serving struct {
	*Server

	url    string
	pool   *x509.CertPool
	cert   atomic.Pointer[tls.Certificate]
	ended  chan error
	cancel context.CancelFunc
}

func serve(t *testing.T, o Options, programs ...*admission.Program) *serving {
	t.Helper()
	ca := newIssuer(t)
	s := &serving{pool: ca.pool, ended: make(chan error, 1)}
	s.cert.Store(ca.serving(t, 2))
	o.Certificate = func() (*tls.Certificate, error) { return s.cert.Load(), nil }
	s.Server = New(o)
	s.Set(programs)
	listener := must.Get(net.Listen("tcp", "127.0.0.1:0")).In(t)
	s.url = "https://" + listener.Addr().String()
	ctx, cancel := context.WithCancel(context.Background())
	s.cancel = cancel
	t.Cleanup(cancel)
	go func() { s.ended <- s.Serve(ctx, listener) }()
	return s
}

func (s *serving) client(t *testing.T) *http.Client {
	t.Helper()
	transport := &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{RootCAs: s.pool, MinVersion: tls.VersionTLS12}}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: 30 * time.Second}
}

// httpResponse is what a client gets.
type httpResponse struct {
	code, protocol int
	serial         string
	body           []byte
}

func (s *serving) post(client *http.Client, path string, body []byte) (httpResponse, error) {
	response, err := client.Post(s.url+path, "application/json", bytes.NewReader(body))
	if err != nil {
		return httpResponse{}, err
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	return httpResponse{response.StatusCode, response.ProtoMajor, response.TLS.PeerCertificates[0].SerialNumber.String(), data}, err
}

func TestServeTakesObjectsOfThreeMegabytes(t *testing.T) {
	const size = 3 << 20
	s := serve(t, Options{}, programOf(func(_ context.Context, r *hook.ReviewRequest) (*hook.ReviewResponse, error) {
		if len(r.Object) < size || len(r.OldObject) < size {
			return nil, errors.New("cut short")
		}
		return &hook.ReviewResponse{Patch: json.RawMessage(`{"new":true}`)}, nil
	}))
	object := fmt.Sprintf(`{"data":%q}`, strings.Repeat("é", size/2))
	got, err := s.post(s.client(t), "/admit/web/check?timeout=30s", reviewOf(`"operation":"UPDATE","oldObject":`+object+`,"object":`+object))
	if err != nil || got.code != http.StatusOK || got.protocol != 1 {
		t.Fatalf("%d over HTTP/%d, %.200s, %v", got.code, got.protocol, got.body, err)
	}
	if patch := responseOf(t, got.body).Patch; string(patch) != `[{"op":"add","path":"/new","value":true}]` {
		t.Errorf("%.200s", got.body)
	}
	got, err = s.post(s.client(t), "/admit/web/check", reviewOf(`"operation":"CREATE","object":{"data":"`+strings.Repeat("x", 9<<20)+`"}`))
	if err != nil || got.code != http.StatusRequestEntityTooLarge {
		t.Errorf("%d, %.200s, %v", got.code, got.body, err)
	}
}

// TestServeWhileAllChanges exchanges the certificate, and the programs, while 32
// clients open new connections: none of them is refused.
func TestServeWhileAllChanges(t *testing.T) {
	ca := newIssuer(t)
	program := programOf(allow)
	s := serve(t, Options{}, program)
	s.pool = ca.pool
	s.cert.Store(ca.serving(t, 2))
	serials, last := sync.Map{}, atomic.Int64{}
	last.Store(2)
	var clients sync.WaitGroup
	for range 32 {
		clients.Go(func() {
			client := s.client(t)
			for i := range 12 {
				if i%3 == 0 {
					serial := last.Add(1)
					s.cert.Store(ca.serving(t, serial))
					s.Set([]*admission.Program{program, {Name: fmt.Sprint("other-", serial), Webhooks: program.Webhooks}})
					client = s.client(t)
				}
				got, err := s.post(client, "/admit/web/check", reviewOf(`"operation":"DELETE"`))
				if err != nil || got.code != http.StatusOK {
					t.Errorf("%d: %s, %v", got.code, got.body, err)
					return
				}
				serials.Store(got.serial, true)
			}
		})
	}
	clients.Wait()
	several := 0
	serials.Range(func(_, _ any) bool { several++; return true })
	if several < 2 {
		t.Error("no certificate was exchanged meanwhile")
	}
}

// withMoreTime calls try with longer and longer durations until it succeeds: a slow machine may miss the first.
func withMoreTime(t *testing.T, first time.Duration, try func(time.Duration) error) {
	t.Helper()
	var err error
	for d := first; d < time.Minute; d *= 4 {
		if err = try(d); err == nil {
			return
		}
	}
	t.Error(err)
}

// A stopping server still responds for a while and finishes active requests.
func TestServeEnds(t *testing.T) {
	withMoreTime(t, time.Second, func(lameDuck time.Duration) error { return serveToTheEnd(t, lameDuck) })
}

// serveToTheEnd returns an error if the server does not respond while it is a lame duck.
func serveToTheEnd(t *testing.T, lameDuck time.Duration) error {
	t.Helper()
	slow, entered, release := blocked()
	quick := &admission.Program{Name: "quick", Webhooks: []admission.Webhook{{Name: "check", Admitter: hook.AdmitterFunc(allow)}}}
	s := serve(t, Options{LameDuck: lameDuck}, slow, quick)
	underWay := make(chan error, 1)
	go func() {
		got, err := s.post(s.client(t), "/admit/web/check", reviewOf(`"operation":"DELETE"`))
		if err == nil && got.code != http.StatusOK {
			err = fmt.Errorf("%d: %s", got.code, got.body)
		}
		underWay <- err
	}()
	<-entered
	s.cancel()
	got, failed := s.post(s.client(t), "/admit/quick/check", reviewOf(`"operation":"DELETE"`))
	if failed == nil && got.code != http.StatusOK {
		failed = fmt.Errorf("the lame duck responds %d: %s", got.code, got.body)
	}
	// Once the server accepts no connections, active requests still run.
	refused, poll := false, time.NewTicker(20*time.Millisecond)
	defer poll.Stop()
	for deadline := time.Now().Add(lameDuck + time.Minute); !refused && time.Now().Before(deadline); {
		_, err := s.post(s.client(t), "/admit/quick/check", reviewOf(`"operation":"DELETE"`))
		refused = err != nil
		<-poll.C
	}
	close(release)
	if err := <-underWay; err != nil || !refused {
		t.Errorf("what was under way: %v; refused: %v", err, refused)
	}
	must.Succeed(t, <-s.ended)
	return failed
}

func TestServeInterruptsStuckReviews(t *testing.T) {
	program, entered, release := blocked()
	s := serve(t, Options{Drain: 10 * time.Millisecond}, program)
	underWay := make(chan error, 1)
	go func() {
		_, err := s.post(s.client(t), "/admit/web/check", reviewOf(`"operation":"DELETE"`))
		underWay <- err
	}()
	<-entered
	s.cancel()
	if err := <-s.ended; err == nil || !strings.Contains(err.Error(), "1 reviews in flight") {
		t.Error(err)
	}
	if err := <-underWay; err == nil {
		t.Error("it was not cut off")
	}
	close(release)
}

func TestServeReturnsErrors(t *testing.T) {
	s := New(Options{})
	listener := must.Get(net.Listen("tcp", "127.0.0.1:0")).In(t)
	listener.Close()
	if err := s.Serve(t.Context(), listener); err == nil || !strings.Contains(err.Error(), "serve webhooks at 127.0.0.1:") {
		t.Error(err)
	}
}
