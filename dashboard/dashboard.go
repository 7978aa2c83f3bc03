// Package dashboard serves a dashboard in a program that runs controllers:
//
//	app.UseDashboard(&dashboard.Options{})
//
// gives the program the flag --dashboard-address and those of the other options. A program
// that does not import this package does not link the pages of the dashboard.
package dashboard

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"time"

	server "github.com/setpoint-dev/setpoint/internal/dashboard"
	"github.com/setpoint-dev/setpoint/internal/dashboard/access"
	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/manager"
	"github.com/setpoint-dev/setpoint/internal/manager/serving"
)

// Options configure the address of the dashboard and how it authenticates users: by a
// bearer token, or by the headers of a proxy. What users see and do is limited by their own
// access to the cluster. The zero value disables the dashboard.
type Options struct {
	// Address is the listen address, such as ":8443"; "" disables the dashboard.
	Address string
	// CertFile and KeyFile are the TLS certificate and key in PEM. They are reloaded on change.
	CertFile, KeyFile string
	// UserHeader and GroupsHeader are the headers in which a proxy sends the user it
	// authenticated, such as "X-Forwarded-User". Requests impersonate that user. Without
	// them no header is trusted.
	UserHeader, GroupsHeader string
	// UserPrefix and GroupsPrefix are prepended to these names, such as "sso:", so that they
	// cannot be those of users and groups of the cluster.
	UserPrefix, GroupsPrefix string
	// TrustedProxies are addresses or networks of such proxies, such as "10.0.0.0/8";
	// loopback if empty.
	TrustedProxies []string
	// Hosts are the host names that the proxy serves, such as "setpoint.example.com". Headers
	// of requests to other hosts are not trusted. If empty, any name is allowed except
	// localhost and addresses.
	Hosts []string
	// SessionLifetime is how long a session lasts; 12 hours if zero.
	SessionLifetime time.Duration
}

// The setpoint.App that uses the dashboard expects this.
var _ manager.Dashboard = (*Options)(nil)

// Check validates the options.
func (o *Options) Check() error {
	if (o.CertFile == "") != (o.KeyFile == "") {
		return errors.New("TLS of the dashboard needs a certificate and a key: set both files, or none")
	}
	for _, prefix := range []string{o.UserPrefix, o.GroupsPrefix} {
		if strings.HasPrefix(prefix, "system:") {
			return fmt.Errorf("the prefix %q is reserved by Kubernetes: use another one, such as %q", prefix, "sso:")
		}
	}
	if o.SessionLifetime < 0 {
		return errors.New("--dashboard-session-lifetime must not be negative")
	}
	_, err := o.proxies()
	return err
}

// proxies parses TrustedProxies.
func (o *Options) proxies() ([]netip.Prefix, error) {
	var all []netip.Prefix
	for _, text := range o.TrustedProxies {
		prefix, err := netip.ParsePrefix(text)
		if err != nil {
			var address netip.Addr
			if address, err = netip.ParseAddr(text); err != nil {
				return nil, fmt.Errorf("the trusted proxy %q is neither an address, such as 10.0.0.7, nor a network, such as 10.0.0.0/8",
					text)
			}
			prefix = netip.PrefixFrom(address, address.BitLen())
		}
		all = append(all, prefix.Masked())
	}
	return all, nil
}

// access returns the authentication options.
func (o *Options) access() (access.Options, error) {
	proxies, err := o.proxies()
	return access.Options{
		Headers: access.Headers{User: o.UserHeader, Groups: o.GroupsHeader, UserPrefix: o.UserPrefix, GroupsPrefix: o.GroupsPrefix,
			Trusted: proxies},
		Hosts:    o.Hosts,
		Lifetime: o.SessionLifetime,
		Secure:   o.CertFile != "" || len(proxies) > 0,
	}, err
}

// exposesTokens reports whether users send tokens in clear text.
func (o *Options) exposesTokens() bool {
	return o.CertFile == "" && !access.IsLoopback(o.Address) && len(o.TrustedProxies) == 0
}

// Open opens the endpoint of the dashboard, if it has an address.
func (o *Options) Open(ctx context.Context, p manager.DashboardProcess) ([]serving.Endpoint, error) {
	if o.Address == "" {
		return nil, nil
	}
	by, err := o.access()
	if err != nil {
		return nil, err
	}
	sources := []inspect.Source{p.Source}
	handler, err := server.NewForConfig(p.Config, server.Options{
		Access: by, Sources: func(context.Context) []inspect.Source { return sources }, Version: p.Version, Log: p.Log,
	})
	if err != nil {
		return nil, err
	}
	listener, err := o.listen(ctx, p.Log)
	if err != nil {
		return nil, err
	}
	p.Log.Info("serving the dashboard", "address", listener.Addr().String(), "tls", o.CertFile != "")
	if o.exposesTokens() {
		p.Log.Warn("users of the dashboard send their tokens in clear text: " +
			"set a certificate (--dashboard-tls-cert-file), or a proxy that has one (--dashboard-trusted-proxies)")
	}
	return []serving.Endpoint{{Listener: listener, Handler: handler}}, nil
}

// listen opens the address.
func (o *Options) listen(ctx context.Context, log *slog.Logger) (net.Listener, error) {
	certificate := &certificateFiles{cert: o.CertFile, key: o.KeyFile, log: log, now: time.Now}
	if o.CertFile != "" {
		if _, err := certificate.current(nil); err != nil {
			return nil, err
		}
	}
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", o.Address)
	if err != nil || o.CertFile == "" {
		return listener, err
	}
	return tls.NewListener(listener, &tls.Config{
		MinVersion: tls.VersionTLS12, GetCertificate: certificate.current, NextProtos: []string{"h2", "http/1.1"},
	}), nil
}
