package access

import (
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// hostName returns a host in lower case without its port.
func hostName(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return strings.ToLower(strings.Trim(host, "[]"))
}

// IsLoopback reports whether a host, which may have a port, is this machine.
func IsLoopback(host string) bool {
	name := hostName(host)
	address, err := netip.ParseAddr(name)
	return name == "localhost" || err == nil && address.Unmap().IsLoopback()
}

// isAllowedHost reports whether a Host header names the dashboard. Without a list, it must be a
// name that no other site can have.
func (g *Authenticator) isAllowedHost(host string) bool {
	name := hostName(host)
	if len(g.options.Hosts) > 0 {
		return slices.ContainsFunc(g.options.Hosts, func(known string) bool { return hostName(known) == name })
	}
	_, err := netip.ParseAddr(name)
	return name == "localhost" || err == nil
}

// remoteAddr returns the address of the connection; the zero Addr if unknown.
func remoteAddr(r *http.Request) netip.Addr {
	at, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	return at.Addr().Unmap().WithZone("")
}

// isProxy reports whether an address is trusted.
func (g *Authenticator) isProxy(from netip.Addr) bool {
	if len(g.options.Headers.Trusted) == 0 {
		return from.IsLoopback()
	}
	return slices.ContainsFunc(g.options.Headers.Trusted, func(p netip.Prefix) bool { return p.Contains(from) })
}
