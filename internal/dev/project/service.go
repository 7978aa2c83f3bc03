package project

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// Service is the Service that a process replaces.
type Service struct {
	Name, Namespace string
	// Port limits it to one port; 0 is every port.
	Port int
	// Wrong is what is wrong with it in setpoint.yaml; the decoder would not say of which process.
	Wrong string
}

// String returns the form in setpoint.yaml.
func (s Service) String() string {
	return s.Addresses()[0]
}

// domains are the DNS suffixes of Services.
var domains = []string{"", ".svc", ".svc.cluster.local"}

// Addresses returns all forms: "host", or "host:port" with a port.
func (s Service) Addresses() []string {
	var all []string
	for _, domain := range domains {
		address := s.Name + "." + s.Namespace + domain
		if s.Port != 0 {
			address = net.JoinHostPort(address, strconv.Itoa(s.Port))
		}
		all = append(all, address)
	}
	return all
}

// Matches reports whether a call to addr ("host:port") is for the Service.
func (s Service) Matches(addr string) bool {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		host = addr
	}
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	if s.Port != 0 {
		host = net.JoinHostPort(host, port)
	}
	return slices.Contains(s.Addresses(), host)
}

// UnmarshalText parses "name.namespace" or "name.namespace:port".
func (s *Service) UnmarshalText(text []byte) error {
	host, port, hasPort := strings.Cut(string(text), ":")
	s.Name, s.Namespace, _ = strings.Cut(host, ".")
	number, err := strconv.ParseUint(port, 10, 16)
	s.Port = int(number)
	switch {
	case !isLabel(s.Name) || !isLabel(s.Namespace):
		s.Wrong = fmt.Sprintf(`must be "name.namespace" or "name.namespace:port", not %q`, text)
	case hasPort && (err != nil || number == 0):
		s.Wrong = fmt.Sprintf("%q is not a port", port)
	}
	return nil
}

// isLabel reports whether text is a valid name of a Service or namespace.
func isLabel(text string) bool { return len(validation.IsDNS1123Label(text)) == 0 }
