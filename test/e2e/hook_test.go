package e2e

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"maps"
	"math/big"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"text/template"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// behaviour is what a scripted hook does with a call; see README.md.
type behaviour struct {
	response *template.Template
	status   int
	header   http.Header
	delay    time.Duration
	truncate int // bytes of the body that are sent of those announced; 0: all
	size     int // the body is padded with spaces to this many bytes
	refuse   bool
	require  http.Header // required in a request
	etag     string      // a request with it gets no more than 304
	tls      string      // the file for the certificate; "": plain HTTP
}

// hookServers are the hooks of one script.
type hookServers struct{ byName map[string]*hookServer }

// hookServer is one scripted hook. Its address stays the same when it refuses
// connections for a while.
type hookServer struct {
	address string
	server  *http.Server
	secured string // the behaviour's tls that the server has

	mu        sync.Mutex
	behaviour behaviour
	calls     int
	last      []byte
}

// hookCommand: hook NAME KEY=VALUE…: starts a hook, or changes what it does.
// Its address is in $NAME_url afterwards.
func hookCommand(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: hook NAME response=FILE|status=N|header=KEY:VALUE|delay=D|truncate=N|size=N|refuse|require=KEY:VALUE|etag=TAG|tls=FILE …")
	}
	does, err := parseBehaviour(ts, args[1:])
	ts.Check(err)
	scheme := "http://"
	if does.tls != "" {
		scheme = "https://"
	}
	servers := ts.Value(hooksKey{}).(*hookServers)
	h, known := servers.byName[args[0]]
	if !known {
		h = &hookServer{address: "127.0.0.1:0"}
		servers.byName[args[0]] = h
		ts.Defer(h.stop)
	}
	ts.Check(h.setBehaviour(does))
	ts.Setenv(args[0]+"_url", scheme+h.address)
}

// callsCommand: calls NAME: prints how many calls the hook has had.
func callsCommand(ts *testscript.TestScript, neg bool, args []string) {
	fmt.Fprintln(ts.Stdout(), knownHook(ts, neg, args, 1).called())
}

// lastCallCommand: lastcall NAME FILE: saves the body of the latest request.
func lastCallCommand(ts *testscript.TestScript, neg bool, args []string) {
	last := knownHook(ts, neg, args, 2).lastCall()
	if last == nil {
		ts.Fatalf("hook %s has not been called", args[0])
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), last, 0o600))
}

func (h *hookServer) lastCall() []byte {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.last
}

func knownHook(ts *testscript.TestScript, neg bool, args []string, want int) *hookServer {
	if neg || len(args) != want {
		ts.Fatalf("usage: calls NAME, lastcall NAME FILE")
	}
	h, known := ts.Value(hooksKey{}).(*hookServers).byName[args[0]]
	if !known {
		ts.Fatalf("there is no hook %q: start it with hook %s …", args[0], args[0])
	}
	return h
}

func parseBehaviour(ts *testscript.TestScript, settings []string) (behaviour, error) {
	does := behaviour{status: http.StatusOK, header: http.Header{"Content-Type": {"application/json"}}, require: http.Header{}}
	for _, setting := range settings {
		key, value, _ := strings.Cut(setting, "=")
		var err error
		switch key {
		case "response":
			does.response, err = parseResponse(value, ts.ReadFile(value))
		case "status":
			does.status, err = strconv.Atoi(value)
		case "header":
			name, content, _ := strings.Cut(value, ":")
			does.header.Set(name, strings.TrimSpace(content))
		case "require":
			name, content, _ := strings.Cut(value, ":")
			does.require.Set(name, strings.TrimSpace(content))
		case "etag":
			does.etag = strconv.Quote(value)
			does.header.Set("ETag", does.etag)
		case "tls":
			does.tls = ts.MkAbs(value)
		case "delay":
			does.delay, err = time.ParseDuration(value)
		case "truncate":
			does.truncate, err = strconv.Atoi(value)
		case "size":
			does.size, err = strconv.Atoi(value)
		case "refuse":
			does.refuse = true
		default:
			err = fmt.Errorf("not something a hook can do")
		}
		if err != nil {
			return does, fmt.Errorf("%s: %w", setting, err)
		}
	}
	return does, nil
}

// parseResponse parses a response as a template over the request.
func parseResponse(name, text string) (*template.Template, error) {
	asJSON := func(v any) (string, error) {
		out, err := json.Marshal(v)
		return string(out), err
	}
	return template.New(name).Funcs(template.FuncMap{"json": asJSON}).Parse(text)
}

// setBehaviour changes what the hook does from the next call on.
func (h *hookServer) setBehaviour(does behaviour) error {
	h.mu.Lock()
	h.behaviour = does
	h.mu.Unlock()
	if does.refuse {
		h.stop()
		return nil
	}
	if h.server != nil && h.secured == does.tls {
		return nil
	}
	h.stop()
	listener, err := net.Listen("tcp", h.address)
	if err != nil {
		return err
	}
	h.address, h.secured = listener.Addr().String(), does.tls
	h.server = &http.Server{Handler: h, ErrorLog: log.New(io.Discard, "", 0)}
	if does.tls != "" {
		if listener, err = overTLS(listener, does.tls); err != nil {
			return err
		}
	}
	go h.server.Serve(listener)
	return nil
}

// stop closes the listener and every connection, so that the next call is refused.
func (h *hookServer) stop() {
	if h.server != nil {
		h.server.Close()
		h.server = nil
	}
}

func (h *hookServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	request, err := io.ReadAll(r.Body)
	if err != nil {
		return // the caller is gone
	}
	does := h.note(request)
	select {
	case <-time.After(does.delay):
	case <-r.Context().Done():
		return
	}
	if code := does.refusal(r); code != 0 {
		w.WriteHeader(code)
		return
	}
	body, err := does.body(request)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	does.send(w, body)
}

func (h *hookServer) called() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.calls
}

// note remembers a call and says what to do with it.
func (h *hookServer) note(request []byte) behaviour {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.calls++
	h.last = request
	return h.behaviour
}

// refusal returns the status of a request that gets no response file; 0 if it gets one.
func (b behaviour) refusal(r *http.Request) int {
	for name := range b.require {
		if r.Header.Get(name) != b.require.Get(name) {
			return http.StatusUnauthorized
		}
	}
	if b.etag != "" && r.Header.Get("If-None-Match") == b.etag {
		return http.StatusNotModified
	}
	return 0
}

func (b behaviour) body(request []byte) ([]byte, error) {
	if b.response == nil {
		return nil, nil
	}
	var data any
	if err := json.Unmarshal(request, &data); err != nil {
		return nil, err
	}
	var body bytes.Buffer
	err := b.response.Execute(&body, data)
	return append(body.Bytes(), bytes.Repeat([]byte(" "), max(0, b.size-body.Len()))...), err
}

// switchProtocols responds with 101, and keeps the connection until the caller closes it.
func switchProtocols(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer conn.Close()
	io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
	io.Copy(io.Discard, conn)
}

func (b behaviour) send(w http.ResponseWriter, body []byte) {
	if b.status == http.StatusSwitchingProtocols {
		switchProtocols(w)
		return
	}
	maps.Copy(w.Header(), b.header)
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(b.status)
	if b.truncate == 0 || b.truncate >= len(body) {
		w.Write(body)
		return
	}
	w.Write(body[:b.truncate])
	http.NewResponseController(w).Flush()
	panic(http.ErrAbortHandler) // the connection breaks here, as the announced length is not reached
}

// overTLS lets a listener show a new certificate, which is written to a file.
func overTLS(plain net.Listener, file string) (net.Listener, error) {
	raw, key, err := selfSigned()
	if err != nil {
		return nil, err
	}
	if err := writePEM(file, "CERTIFICATE", raw); err != nil {
		return nil, err
	}
	own := tls.Certificate{Certificate: [][]byte{raw}, PrivateKey: key}
	return tls.NewListener(plain, &tls.Config{Certificates: []tls.Certificate{own}, MinVersion: tls.VersionTLS12}), nil
}

// certificate CERT KEY: writes a certificate for 127.0.0.1 that vouches for itself, and its key.
func certificateCommand(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: certificate CERT KEY")
	}
	raw, key, err := selfSigned()
	ts.Check(err)
	der, err := x509.MarshalPKCS8PrivateKey(key)
	ts.Check(err)
	ts.Check(writePEM(ts.MkAbs(args[0]), "CERTIFICATE", raw))
	ts.Check(writePEM(ts.MkAbs(args[1]), "PRIVATE KEY", der))
}

// selfSigned returns a new certificate that vouches for itself.
func selfSigned() (raw []byte, key *ecdsa.PrivateKey, err error) {
	if key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		return nil, nil, err
	}
	template := &x509.Certificate{
		SerialNumber:          big.NewInt(time.Now().UnixNano()),
		NotBefore:             time.Now().Add(-time.Hour),
		NotAfter:              time.Now().Add(time.Hour),
		IPAddresses:           []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	raw, err = x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	return raw, key, err
}

func writePEM(file, kind string, der []byte) error {
	return os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600)
}
