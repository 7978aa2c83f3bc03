package project

import (
	"net"
	"slices"
	"strconv"
	"strings"
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

// readService parses "name.namespace" or "name.namespace:port".
func readService(n node) *Service {
	text := n.required()
	host, port, hasPort := strings.Cut(text, ":")
	name, namespace, found := strings.Cut(host, ".")
	if !found || !isLabel(name) || !isLabel(namespace) {
		n.errorf(`must be "name.namespace" or "name.namespace:port", not %q`, text)
		return nil
	}
	s := &Service{Name: name, Namespace: namespace}
	if !hasPort {
		return s
	}
	number, err := strconv.Atoi(port)
	if err != nil || number < 1 || number > 65535 {
		n.errorf("%q is not a port", port)
		return nil
	}
	s.Port = number
	return s
}

// isLabel reports whether text is a valid name of a Service or namespace.
func isLabel(text string) bool {
	ok := func(r rune) bool { return r == '-' || r >= 'a' && r <= 'z' || r >= '0' && r <= '9' }
	return text != "" && len(text) <= 63 && strings.Trim(text, "-") == text &&
		!strings.ContainsFunc(text, func(r rune) bool { return !ok(r) })
}
