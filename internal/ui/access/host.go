package access

import (
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// loopback are the addresses of the machine itself.
func loopback() []netip.Prefix {
	return []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}
}

// isLoopback reports whether a Host header names the machine itself.
func isLoopback(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.Trim(host, "[]")
	if strings.EqualFold(host, "localhost") {
		return true
	}
	address, err := netip.ParseAddr(host)
	return err == nil && address.Unmap().IsLoopback()
}

// peer is the address that a connection comes from; the zero Addr if it is not known.
func peer(r *http.Request) netip.Addr {
	at, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	return at.Addr().Unmap().WithZone("")
}

// trusts reports whether a request comes from a proxy that is believed.
func (g *Gate) trusts(r *http.Request) bool {
	from := peer(r)
	return slices.ContainsFunc(g.options.Headers.Trusted, func(p netip.Prefix) bool { return p.Contains(from) })
}
