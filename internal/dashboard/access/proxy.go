package access

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/setpoint-dev/setpoint/internal/dashboard/userclient"
)

func (g *Authenticator) usesProxyAuth(r *http.Request) bool {
	if g.options.Headers.User == "" || !g.isFromProxy(r) {
		return false
	}
	return r.Header.Get(g.options.Headers.User) != "" || bearerToken(r) != ""
}

func bearerToken(r *http.Request) string {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(token)
}

// proxyUser returns the user named by a proxy. If the proxy forwards a token, requests use it instead of impersonation.
func (g *Authenticator) proxyUser(r *http.Request) (*userclient.User, error) {
	if token := bearerToken(r); token != "" {
		return g.bearerUser(r, token)
	}
	if !g.isAllowedHost(r.Host) {
		return nil, fmt.Errorf("%w: %q is not listed in --dashboard-hosts", ErrHost, r.Host)
	}
	headers := g.options.Headers
	u := userclient.User{Name: r.Header.Get(headers.User)}
	if strings.HasPrefix(u.Name, "system:") {
		return nil, fmt.Errorf("%w: %s", ErrProxyUser, u.Name)
	}
	u.Name = headers.UserPrefix + u.Name
	if headers.Groups != "" {
		u.Groups = proxyGroups(r.Header.Values(headers.Groups), headers.GroupsPrefix)
	}
	return &u, nil
}

// proxyGroups returns the groups of a header. Groups of the cluster are dropped, so that a
// directory cannot add users to system:masters.
func proxyGroups(values []string, prefix string) []string {
	var all []string
	for _, value := range values {
		for group := range strings.SplitSeq(value, ",") {
			if group = strings.TrimSpace(group); group != "" {
				all = append(all, group)
			}
		}
	}
	all = slices.DeleteFunc(all, func(group string) bool {
		return strings.HasPrefix(group, "system:") && group != authenticatedGroup
	})
	for i, group := range all {
		if group != authenticatedGroup {
			all[i] = prefix + group
		}
	}
	return all
}

const authenticatedGroup = "system:authenticated"

// bearerUser returns the user of a forwarded token. The session is identified by the token instead of a cookie.
func (g *Authenticator) bearerUser(r *http.Request, token string) (*userclient.User, error) {
	id := "bearer:" + g.digest(token)
	if known, err := g.sessions.use(id, true); err == nil {
		return known, nil
	}
	user, err := g.verify(r.Context(), token)
	if errors.Is(err, userclient.ErrBadToken) {
		return nil, fmt.Errorf("%w: %w", ErrExpired, err)
	}
	if err != nil {
		return nil, err
	}
	g.sessions.put(id, user)
	return &user, nil
}

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

// isFromProxy reports whether a trusted address connected.
func (g *Authenticator) isFromProxy(r *http.Request) bool {
	at, _ := netip.ParseAddrPort(r.RemoteAddr) // The zero address is not trusted.
	from := at.Addr().Unmap().WithZone("")
	if len(g.options.Headers.Trusted) == 0 {
		return from.IsLoopback()
	}
	return slices.ContainsFunc(g.options.Headers.Trusted, func(p netip.Prefix) bool { return p.Contains(from) })
}
