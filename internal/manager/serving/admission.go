package serving

import (
	"cmp"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/setpoint-dev/setpoint/internal/admission/certs"
	"github.com/setpoint-dev/setpoint/internal/admission/register"
)

// AdmissionOptions configure the webhook server and how the API server reaches it. Without a
// Service or a URL it must run on the same machine.
type AdmissionOptions struct {
	// Address is the listen address, such as ":9443"; "127.0.0.1:0" if empty. It is opened
	// when the first controller has webhooks.
	Address string
	// Service is the name of the Service for that address, in the namespace of Setpoint, and Port its port, 443 if
	// zero. All replicas share a certificate, in the Secret Service-admission.
	Service string
	Port    int32
	// URL is the URL for that address, such as "https://dev.example.com:9443". It overrides Service.
	URL string
	// ClientCAFile has the CAs, in PEM, of the client certificate that the API server must
	// present; "" requires none. It is reloaded on change.
	ClientCAFile string
	// CertificateSecretName is a Secret in the namespace of Setpoint with the certificate to serve, such as one of
	// cert-manager: tls.crt, tls.key, and ca.crt. It is read and watched. Setpoint makes certificates if it is empty.
	CertificateSecretName string
	// CertificateLifetime is the lifetime of serving certificates, 90 days if zero. CAs last eight times as long.
	CertificateLifetime time.Duration
}

// lifetimes returns the lifetimes of certificates. API servers get time to load a new CA,
// less where certificates are short-lived.
func (a AdmissionOptions) lifetimes() certs.Lifetimes {
	if a.CertificateLifetime == 0 {
		return certs.Lifetimes{}
	}
	return certs.Lifetimes{
		Certificate:      a.CertificateLifetime,
		Authority:        8 * a.CertificateLifetime,
		PropagationDelay: min(5*time.Minute, a.CertificateLifetime/3),
	}
}

// WithClusterDefaults sets the defaults of a program that runs inside the cluster.
func (a AdmissionOptions) WithClusterDefaults(inside bool, service string) AdmissionOptions {
	if !inside {
		return a
	}
	a.Address = cmp.Or(a.Address, ":9443")
	if a.URL == "" {
		a.Service = cmp.Or(a.Service, service)
	}
	return a
}

// clientCAs returns a function that reads the CAs of the API server's client certificate for
// each connection, of which there are few; nil if no certificate is required.
func (a AdmissionOptions) clientCAs() func() (*x509.CertPool, error) {
	if a.ClientCAFile == "" {
		return nil
	}
	return func() (*x509.CertPool, error) {
		pem, err := os.ReadFile(a.ClientCAFile)
		if err != nil {
			return nil, fmt.Errorf("read the client CAs of the API server: %w", err)
		}
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("read the client CAs of the API server: %s has no PEM certificate", a.ClientCAFile)
		}
		return pool, nil
	}
}

// Check validates the options.
func (a AdmissionOptions) Check() error {
	if a.CertificateSecretName != "" && a.CertificateLifetime != 0 {
		return errors.New("--admission-certificate-lifetime is that of certificates that Setpoint makes: omit it with " +
			"--admission-certificate-secret")
	}
	if problems := validation.IsDNS1123Subdomain(a.CertificateSecretName); a.CertificateSecretName != "" && len(problems) > 0 {
		return fmt.Errorf("--admission-certificate-secret %q is no name of a Secret: %s", a.CertificateSecretName, problems[0])
	}
	if read := a.clientCAs(); read != nil {
		_, err := read()
		return err
	}
	return nil
}

// Reach is how API servers reach the webhook server of a process.
type Reach struct {
	AdmissionOptions

	// Namespace is that of Setpoint.
	Namespace string
	// LeaderLease identifies this Setpoint and its replicas.
	LeaderLease types.NamespacedName
}

// PodNamespace returns the namespace of Setpoint's pods; "" if there are none.
func (r *Reach) PodNamespace() string {
	if r.usesService() {
		return r.Namespace
	}
	return ""
}

// usesService reports whether API servers use a Service.
func (r *Reach) usesService() bool { return r.Service != "" && r.URL == "" }

// shutdownDelay is the time for API servers to notice that a pod stops.
func (r *Reach) shutdownDelay() time.Duration {
	if r.usesService() {
		return 5 * time.Second
	}
	return 0
}

// ProvidesCertificates reports whether users keep the certificates in the Secret.
func (r *Reach) ProvidesCertificates() bool { return r.CertificateSecretName != "" }

// CertificateSecret returns the Secret with the certificates; the zero value if they are in memory only.
func (r *Reach) CertificateSecret() types.NamespacedName {
	if r.ProvidesCertificates() {
		return types.NamespacedName{Namespace: r.Namespace, Name: r.CertificateSecretName}
	}
	if !r.usesService() {
		return types.NamespacedName{}
	}
	return types.NamespacedName{Namespace: r.Namespace, Name: r.Service + "-admission"}
}

// RegistrationGroup identifies the webhook configurations of this Setpoint and its replicas.
func (r *Reach) RegistrationGroup() string {
	name := r.LeaderLease.Namespace + "." + r.LeaderLease.Name
	if len(name) <= validation.LabelValueMaxLength {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	hash := "-" + hex.EncodeToString(sum[:5])
	return name[:validation.LabelValueMaxLength-len(hash)] + hash
}

// Reachable reports whether an API server can reach the webhook server of this process.
func (r *Reach) Reachable(apiServer string) bool {
	return r.URL != "" || r.Service != "" || isLoopbackURL(apiServer)
}

// address returns the address that an API server uses.
func (r *Reach) address(apiServer string, served net.Addr) (register.Address, error) {
	switch {
	case r.URL != "":
		return register.Address{URL: r.URL}, nil
	case r.Service != "":
		return register.Address{Service: register.ServiceRef{Namespace: r.Namespace, Name: r.Service, Port: r.Port}}, nil
	case isLoopbackURL(apiServer):
		return register.Address{URL: "https://" + served.String()}, nil
	}
	return register.Address{}, fmt.Errorf("the API server at %s cannot reach the webhook server at %s: set a Service or URL for it",
		apiServer, served)
}

// isLoopbackURL reports whether an address is on this machine.
func isLoopbackURL(address string) bool {
	parsed, err := url.Parse(address)
	if err != nil || parsed.Host == "" {
		parsed = &url.URL{Host: address}
	}
	host := parsed.Hostname()
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
