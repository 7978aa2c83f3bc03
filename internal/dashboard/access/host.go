package access

import (
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// loopbackPrefixes are the addresses of the machine itself.
func loopbackPrefixes() []netip.Prefix {
	return []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}
}

// hostName is what a Host header names, without the port.
func hostName(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return strings.ToLower(strings.Trim(host, "[]"))
}

// isLoopback reports whether a Host header names the machine itself.
func isLoopback(host string) bool {
	name := hostName(host)
	address, err := netip.ParseAddr(name)
	return name == "localhost" || err == nil && address.Unmap().IsLoopback()
}

// isAllowedHost reports whether a Host header names the window that a proxy leads to. Without
// a list it has to be what no other site can have as its name.
func (g *Authenticator) isAllowedHost(host string) bool {
	name := hostName(host)
	if len(g.options.Hosts) > 0 {
		return slices.ContainsFunc(g.options.Hosts, func(known string) bool { return hostName(known) == name })
	}
	_, err := netip.ParseAddr(name)
	return name == "localhost" || err == nil
}

// remoteAddr is the address that a connection comes from; the zero Addr if it is not known.
func remoteAddr(r *http.Request) netip.Addr {
	at, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	return at.Addr().Unmap().WithZone("")
}

// isFromProxy reports whether a request comes from a proxy that is believed.
func (g *Authenticator) isFromProxy(r *http.Request) bool { return g.isProxy(remoteAddr(r)) }

func (g *Authenticator) isProxy(from netip.Addr) bool {
	return slices.ContainsFunc(g.options.Headers.Trusted, func(p netip.Prefix) bool { return p.Contains(from) })
}

// clientAddr is the address that a visitor comes from: that of the connection, or behind
// proxies the last that one of them has told of another. What comes before that the
// visitor may have written.
func (g *Authenticator) clientAddr(r *http.Request) netip.Addr {
	from := remoteAddr(r)
	if !g.proxiesListed {
		return from
	}
	told := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
	for _, text := range slices.Backward(told) {
		if !g.isProxy(from) {
			break
		}
		before, err := netip.ParseAddr(hostName(strings.TrimSpace(text)))
		if err != nil {
			break
		}
		from = before.Unmap().WithZone("")
	}
	return from
}
