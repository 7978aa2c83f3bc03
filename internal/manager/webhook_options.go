package manager

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net"
	"net/url"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/setpoint-dev/setpoint/internal/admission"
)

// AdmissionOptions says how the API server comes to this Setpoint before it stores objects.
// Without a Service and a URL, it does so on loopback, if it is there itself.
type AdmissionOptions struct {
	// Address is where it is served, such as ":9443"; "127.0.0.1:0" if empty. Nothing
	// is before the first controller wants to be asked.
	Address string
	// Service is the name of the Service that leads to that address, in
	// Options.Namespace, and Port the Service's, 443 if zero. All replicas share a
	// certificate, in a Secret of the name Service-admission.
	Service string
	Port    int32
	// URL is by which the API server reaches the address otherwise, such as
	// "https://dev.example.com:9443". It goes before a Service.
	URL string
	// ClientCAFile has the CAs, in PEM form, of the certificate that the API server
	// shows, which is required then; "" requires none. It is read anew when it changes.
	ClientCAFile string
	// CertificateLifetime is how long a serving certificate is valid, 90 days if zero;
	// a CA is for eight times as long.
	CertificateLifetime time.Duration
}

// lifetimes are those of the certificates. A new CA gets the time to become known that
// API servers need; less only where certificates do not last that long.
func (a AdmissionOptions) lifetimes() admission.Lifetimes {
	if a.CertificateLifetime == 0 {
		return admission.Lifetimes{}
	}
	return admission.Lifetimes{
		Certificate:      a.CertificateLifetime,
		Authority:        8 * a.CertificateLifetime,
		PropagationDelay: min(5*time.Minute, a.CertificateLifetime/3),
	}
}

// WithClusterDefaults fills in what is not said, as it is for a program that runs inside the
// cluster, or does not.
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

// defaultShutdownDelay is for all API servers to hear that a pod is going.
const defaultShutdownDelay = 5 * time.Second

// ownNamespace is the namespace of Setpoint's own pods, as far as it has any.
func (o *Options) ownNamespace() string {
	if o.usesService() {
		return o.Namespace
	}
	return ""
}

// usesService says that the API server comes by a Service.
func (o *Options) usesService() bool { return o.Admission.Service != "" && o.Admission.URL == "" }

func (o *Options) shutdownDelay() time.Duration {
	if o.usesService() {
		return defaultShutdownDelay
	}
	return 0
}

// certificateSecret is where the certificates are kept; in memory where there is one
// process alone.
func (o *Options) certificateSecret() admission.SecretRef {
	if !o.usesService() {
		return admission.SecretRef{}
	}
	return admission.SecretRef{Namespace: o.Namespace, Name: o.Admission.Service + "-admission"}
}

// registrationGroup tells what this Setpoint, or its replicas, have registered from what
// others have: by its lease.
func (o *Options) registrationGroup() string {
	name := o.LeaderElection.Namespace + "." + o.LeaderElection.Name
	if len(name) <= validation.LabelValueMaxLength {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	hash := "-" + hex.EncodeToString(sum[:5])
	return name[:validation.LabelValueMaxLength-len(hash)] + hash
}

// webhookAddress is how the API server comes to what is served there.
func (o *Options) webhookAddress(served net.Addr) (admission.Address, error) {
	switch {
	case o.Admission.URL != "":
		return admission.Address{URL: o.Admission.URL}, nil
	case o.Admission.Service != "":
		return admission.Address{Service: admission.ServiceRef{Namespace: o.Namespace, Name: o.Admission.Service, Port: o.Admission.Port}}, nil
	case isLoopbackURL(o.Config.Host):
		return admission.Address{URL: "https://" + served.String()}, nil
	}
	return admission.Address{}, fmt.Errorf("the API server at %s cannot come to %s: say by which Service or URL it can", o.Config.Host, served)
}

// isLoopbackURL says that an API server runs on this machine.
func isLoopbackURL(address string) bool {
	parsed, err := url.Parse(address)
	if err != nil || parsed.Host == "" {
		parsed = &url.URL{Host: address}
	}
	host := parsed.Hostname()
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
