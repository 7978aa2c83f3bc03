package cli

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
)

// hooksVariable says where hooks can be reached, as --hook does, with commas
// between them. `setpoint dev` sets it.
const hooksVariable = "SETPOINT_HOOKS"

// routes say where the hooks of hosts can be reached.
type routes []route

// route leads from a host, or a host and port, to an address; from everywhere if
// from is empty.
type route struct{ from, to string }

// parseRoutes reads those of the environment and those of --hook, which count
// before them.
func parseRoutes(variable string, flags []string) (routes, error) {
	var all routes
	for _, text := range flags {
		r, err := parseRoute(text)
		if err != nil {
			return nil, fmt.Errorf("--hook %q: %w", text, err)
		}
		all = append(all, r)
	}
	for text := range strings.SplitSeq(variable, ",") {
		if text == "" {
			continue
		}
		r, err := parseRoute(text)
		if err != nil {
			return nil, fmt.Errorf("$%s: %q: %w", hooksVariable, text, err)
		}
		all = append(all, r)
	}
	return all, nil
}

// parseRoute reads "[host[:port]=]host:port". The address may be a URL without a
// path.
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
			return route{}, fmt.Errorf("leave out %s: the path is the one the controller has", parsed.RequestURI())
		}
		to = parsed.Host
	}
	if _, _, err := net.SplitHostPort(to); err != nil {
		return route{}, fmt.Errorf("want HOST:PORT: %w", err)
	}
	return route{trimClusterDomain(from), to}, nil
}

// trimClusterDomain is a host, or a host and port, without the endings under which the
// cluster's DNS knows a Service.
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

// dial goes where a route leads, else where it is told.
func (r routes) dial(ctx context.Context, network, address string) (net.Conn, error) {
	var dialer net.Dialer
	return dialer.DialContext(ctx, network, r.target(address))
}

// has says that there is a route for an address. Others are reached as 'setpoint run'
// does it, by the proxies of the environment.
func (r routes) has(address string) bool { return r.index(address) >= 0 }

// target is where to go for an address: by the first route that fits.
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
