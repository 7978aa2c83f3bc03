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
	if !isLabel(s.Name) || !isLabel(s.Namespace) {
		return fmt.Errorf(`service: must be "name.namespace" or "name.namespace:port", not %q`, text)
	}
	if !hasPort {
		return nil
	}
	number, err := strconv.ParseUint(port, 10, 16)
	if s.Port = int(number); err != nil || number == 0 {
		return fmt.Errorf("service: %q is not a port", port)
	}
	return nil
}

// isLabel reports whether text is a valid name of a Service or namespace.
func isLabel(text string) bool { return len(validation.IsDNS1123Label(text)) == 0 }
