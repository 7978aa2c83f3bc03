package monitoring

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"
)

// hooks serves all hooks, each with a defect but one.
type hooks struct {
	*httptest.Server

	calls atomic.Int64
	// forget leaves out children.
	forget atomic.Bool
}

func serveHooks(t *testing.T) *hooks {
	h := &hooks{}
	mux := http.NewServeMux()
	mux.HandleFunc("/quiet", h.respond(func(name string) any { return children(configMap("quiet", name, "same")) }))
	mux.HandleFunc("/rolled", h.respond(func(name string) any { return children(configMap("rolled", name, "same")) }))
	mux.HandleFunc("/failing", func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "no database", http.StatusInternalServerError)
	})
	mux.HandleFunc("/slow", delayed(7*time.Second, h.respond(func(string) any { return children() })))
	// An object of it waits for more than 30 s, for long enough to be seen; the timeout of a call is 100 s.
	mux.HandleFunc("/blocked", delayed(95*time.Second, h.respond(func(string) any { return children() })))
	mux.HandleFunc("/restless", h.respond(func(name string) any { return children(configMap("restless", name, fmt.Sprint(h.calls.Add(1)))) }))
	mux.HandleFunc("/rejected", h.respond(func(name string) any {
		child := configMap("rejected", name, "x")
		child["data"] = map[string]any{"not a key": "x"}
		return children(child)
	}))
	mux.HandleFunc("/forgetful", h.respond(func(name string) any {
		if h.forget.Load() {
			return children()
		}
		return children(configMap("forgetful", name, "x"))
	}))
	mux.HandleFunc("/review-slow", delayed(1500*time.Millisecond, h.respond(func(string) any { return map[string]any{"allowed": true} })))
	h.Server = httptest.NewServer(mux)
	t.Cleanup(func() {
		h.Server.CloseClientConnections()
		h.Server.Close()
	})
	return h
}

// respond reads the name of the parent, and writes a response.
func (*hooks) respond(response func(parent string) any) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var request struct {
			Parent struct {
				Metadata struct{ Name string }
			}
		}
		if err := json.NewDecoder(r.Body).Decode(&request); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		_ = json.NewEncoder(w).Encode(response(request.Parent.Metadata.Name)) // The client is gone.
	}
}

// delayed responds later, unless the client is gone.
func delayed(by time.Duration, next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-time.After(by):
			next(w, r)
		case <-r.Context().Done():
		}
	}
}

func children(all ...map[string]any) map[string]any {
	if all == nil {
		all = []map[string]any{}
	}
	return map[string]any{"children": all}
}

func configMap(of, name, value string) map[string]any {
	return map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "data": map[string]any{"value": value},
		"metadata": map[string]any{"name": of + "-" + name, "labels": map[string]any{"of": of}},
	}
}

// expiringCertificate writes a certificate for 127.0.0.1 that has lived for most of its time, as the files of
// a Secret, and returns the folder.
func expiringCertificate(t *testing.T) string {
	t.Helper()
	const day = 24 * time.Hour
	key := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "monitoring"},
		NotBefore: time.Now().Add(-85 * day), NotAfter: time.Now().Add(5 * day),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	certificate := must(x509.CreateCertificate(rand.Reader, template, template, key.Public(), key))(t)
	private := must(x509.MarshalPKCS8PrivateKey(key))(t)
	dir := t.TempDir()
	public := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate})
	for name, data := range map[string][]byte{"tls.crt": public, "ca.crt": public, "tls.key": pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})} {
		succeed(t, os.WriteFile(filepath.Join(dir, name), data, 0o600))
	}
	return dir
}
