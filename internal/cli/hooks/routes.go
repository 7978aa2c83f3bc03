package hooks

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
)

// Variable holds routes as --hook does, separated by commas. `setpoint dev` sets it.
const Variable = "SETPOINT_HOOKS"

// routes map hook addresses to the addresses to dial instead.
type routes []route

// route maps a host, or a host and port, to an address; an empty from matches every host.
type route struct{ from, to string }

// ParseRoutes parses the routes of --hook and of the environment, in order of precedence.
func ParseRoutes(variable string, flags []string) (all routes, err error) {
	ofVariable := strings.FieldsFunc(variable, func(r rune) bool { return r == ',' })
	for i, text := range slices.Concat(flags, ofVariable) {
		source := "--hook"
		if i >= len(flags) {
			source = "$" + Variable
		}
		r, err := parseRoute(text)
		if err != nil {
			return nil, fmt.Errorf("%s %q: %w", source, text, err)
		}
		all = append(all, r)
	}
	return all, nil
}

// parseRoute parses "[host[:port]=]host:port". The address may be a URL without a path.
func parseRoute(text string) (route, error) {
	from, to, found := strings.Cut(text, "=")
	if !found {
		from, to = "", text
	}
	if strings.Contains(to, "://") {
		parsed, err := url.Parse(to)
		if err != nil {
			return route{}, err
		}
		if strings.Trim(parsed.Path, "/") != "" || parsed.RawQuery != "" {
			return route{}, fmt.Errorf("remove %s: the path is that of the controller's URL", parsed.RequestURI())
		}
		to = parsed.Host
	}
	if _, _, err := net.SplitHostPort(to); err != nil {
		return route{}, fmt.Errorf("want HOST:PORT: %w", err)
	}
	return route{trimClusterDomain(from), to}, nil
}

// trimClusterDomain removes the cluster's DNS suffixes from a Service address.
func trimClusterDomain(address string) string {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		host = address
	}
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	host = strings.TrimSuffix(strings.TrimSuffix(host, ".cluster.local"), ".svc")
	if err != nil {
		return host
	}
	return net.JoinHostPort(host, port)
}

// Dial connects to the target of the route for address, or to address itself.
func (r routes) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	var dialer net.Dialer
	return dialer.DialContext(ctx, network, r.target(address))
}

// Has reports whether there is a route for an address. Other addresses use the proxies of
// the environment, as in 'setpoint run'.
func (r routes) Has(address string) bool { return r.index(address) >= 0 }

// target returns the target of the first matching route, or address itself.
func (r routes) target(address string) string {
	if i := r.index(address); i >= 0 {
		return r[i].to
	}
	return address
}

func (r routes) index(address string) int {
	whole := trimClusterDomain(address)
	host, _, err := net.SplitHostPort(whole)
	return slices.IndexFunc(r, func(one route) bool {
		return one.from == "" || one.from == whole || err == nil && one.from == host
	})
}
