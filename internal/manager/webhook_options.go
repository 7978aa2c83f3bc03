package manager

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net"
	"net/url"
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
	// Service is the name of the Service for that address, in Options.Namespace, and Port
	// its port, 443 if zero. All replicas share a certificate, in the Secret
	// Service-admission.
	Service string
	Port    int32
	// URL is the URL for that address, such as "https://dev.example.com:9443". It overrides
	// Service.
	URL string
	// ClientCAFile has the CAs, in PEM, of the client certificate that the API server must
	// present; "" requires none. It is reloaded on change.
	ClientCAFile string
	// CertificateLifetime is the lifetime of serving certificates, 90 days if zero. CAs last
	// eight times as long.
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

// defaultShutdownDelay is the time for API servers to notice that a pod stops.
const defaultShutdownDelay = 5 * time.Second

// ownNamespace returns the namespace of Setpoint's pods; "" if there are none.
func (o *Options) ownNamespace() string {
	if o.usesService() {
		return o.Namespace
	}
	return ""
}

// usesService reports whether API servers use a Service.
func (o *Options) usesService() bool { return o.Admission.Service != "" && o.Admission.URL == "" }

func (o *Options) shutdownDelay() time.Duration {
	if o.usesService() {
		return defaultShutdownDelay
	}
	return 0
}

// certificateSecret returns the Secret with the certificates; the zero value if they are in
// memory only.
func (o *Options) certificateSecret() types.NamespacedName {
	if !o.usesService() {
		return types.NamespacedName{}
	}
	return types.NamespacedName{Namespace: o.Namespace, Name: o.Admission.Service + "-admission"}
}

// registrationGroup identifies the webhook configurations of this Setpoint and its replicas,
// by the leader Lease.
func (o *Options) registrationGroup() string {
	name := o.LeaderElection.Namespace + "." + o.LeaderElection.Name
	if len(name) <= validation.LabelValueMaxLength {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	hash := "-" + hex.EncodeToString(sum[:5])
	return name[:validation.LabelValueMaxLength-len(hash)] + hash
}

// webhookAddress returns the address that API servers use.
func (o *Options) webhookAddress(served net.Addr) (register.Address, error) {
	switch {
	case o.Admission.URL != "":
		return register.Address{URL: o.Admission.URL}, nil
	case o.Admission.Service != "":
		return register.Address{Service: register.ServiceRef{Namespace: o.Namespace, Name: o.Admission.Service, Port: o.Admission.Port}}, nil
	case isLoopbackURL(o.Config.Host):
		return register.Address{URL: "https://" + served.String()}, nil
	}
	return register.Address{}, fmt.Errorf("the API server at %s cannot reach the webhook server at %s: set a Service or URL for it", o.Config.Host, served)
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
