package manager

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"regexp"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/setpoint-dev/setpoint/internal/dashboard"
	"github.com/setpoint-dev/setpoint/internal/dashboard/access"
	"github.com/setpoint-dev/setpoint/internal/dashboard/model"
	"github.com/setpoint-dev/setpoint/internal/dashboard/userclient"
)

// Dashboard configures the dashboard's address and how it authenticates users: by a
// bearer token, or by the headers of a proxy. The zero value disables the dashboard.
type Dashboard struct {
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

// DevDashboard configures a dashboard on loopback without sign-in, for development.
type DevDashboard struct {
	// Listener serves it; nil disables it.
	Listener net.Listener
	// OtherSources returns processes to show beside this one; may be nil.
	OtherSources func(context.Context) []model.Source
}

// check validates the options.
func (w *Dashboard) check() error {
	if (w.CertFile == "") != (w.KeyFile == "") {
		return errors.New("TLS of the dashboard needs a certificate and a key: set both files, or none")
	}
	for _, prefix := range []string{w.UserPrefix, w.GroupsPrefix} {
		if strings.HasPrefix(prefix, "system:") {
			return fmt.Errorf("the prefix %q is reserved by Kubernetes: use another one, such as %q", prefix, "sso:")
		}
	}
	_, err := w.proxies()
	return err
}

// proxies parses TrustedProxies.
func (w *Dashboard) proxies() ([]netip.Prefix, error) {
	var all []netip.Prefix
	for _, text := range w.TrustedProxies {
		prefix, err := netip.ParsePrefix(text)
		if err != nil {
			var address netip.Addr
			if address, err = netip.ParseAddr(text); err != nil {
				return nil, fmt.Errorf("the trusted proxy %q is neither an address, such as 10.0.0.7, nor a network, such as 10.0.0.0/8", text)
			}
			prefix = netip.PrefixFrom(address, address.BitLen())
		}
		all = append(all, prefix.Masked())
	}
	return all, nil
}

// access returns the authentication options.
func (w *Dashboard) access() (access.Options, error) {
	proxies, err := w.proxies()
	return access.Options{
		Headers:  access.Headers{User: w.UserHeader, Groups: w.GroupsHeader, UserPrefix: w.UserPrefix, GroupsPrefix: w.GroupsPrefix, Trusted: proxies},
		Hosts:    w.Hosts,
		Lifetime: w.SessionLifetime,
		Secure:   w.CertFile != "" || len(proxies) > 0,
	}, err
}

// exposesTokens reports whether users send tokens in clear text.
func (w *Dashboard) exposesTokens() bool {
	return w.CertFile == "" && !isLoopbackAddress(w.Address) && len(w.TrustedProxies) == 0
}

func isLoopbackAddress(address string) bool {
	host, _, err := net.SplitHostPort(address)
	ip := net.ParseIP(host)
	return err == nil && (host == "localhost" || ip != nil && ip.IsLoopback())
}

// startDashboard opens the endpoints of the dashboard, if it is enabled.
func (m *Manager) startDashboard(ctx context.Context) ([]httpEndpoint, error) {
	var endpoints []httpEndpoint
	if at := m.options.DevDashboard.Listener; at != nil {
		handler, err := m.newDashboard(access.Options{Open: true})
		if err != nil {
			return nil, err
		}
		endpoints = append(endpoints, httpEndpoint{at, handler})
	}
	w := m.options.Dashboard
	if w.Address == "" {
		return endpoints, nil
	}
	by, err := w.access()
	if err != nil {
		return endpoints, err
	}
	handler, err := m.newDashboard(by)
	if err != nil {
		return endpoints, err
	}
	listener, err := w.listen(ctx, m.log)
	if err != nil {
		return endpoints, fmt.Errorf("serve the dashboard: %w", err)
	}
	m.log.Info("serving the dashboard", "address", listener.Addr().String(), "tls", w.CertFile != "")
	if w.exposesTokens() {
		m.log.Warn("users of the dashboard send their tokens in clear text: " +
			"set a certificate (--dashboard-tls-cert-file), or a proxy that has one (--dashboard-trusted-proxies)")
	}
	return append(endpoints, httpEndpoint{listener, handler}), nil
}

// listen opens the address.
func (w *Dashboard) listen(ctx context.Context, log *slog.Logger) (net.Listener, error) {
	certificate := &certificateFiles{cert: w.CertFile, key: w.KeyFile, log: log, now: time.Now}
	if w.CertFile != "" {
		if _, err := certificate.current(nil); err != nil {
			return nil, err
		}
	}
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", w.Address)
	if err != nil || w.CertFile == "" {
		return listener, err
	}
	return tls.NewListener(listener, &tls.Config{
		MinVersion: tls.VersionTLS12, GetCertificate: certificate.current, NextProtos: []string{"h2", "http/1.1"},
	}), nil
}

// newDashboard returns the dashboard's handler.
func (m *Manager) newDashboard(by access.Options) (*dashboard.Server, error) {
	api, err := userclient.New(m.options.Config)
	if err != nil {
		return nil, fmt.Errorf("start the dashboard: %w", err)
	}
	api.OnWrite = m.logWrite
	return dashboard.New(dashboard.Options{Cluster: api, Access: by, Sources: m.dashboardSources(), Version: m.options.Version, Log: m.log})
}

// logWrite logs what a user of the dashboard changed, or why it was refused.
func (m *Manager) logWrite(user, verb string, ref model.Ref, err error, took time.Duration) {
	resource := schema.GroupResource{Group: ref.Group, Resource: ref.Plural}
	m.log.Info("dashboard write", "user", user, "verb", verb, "resource", resource.String(),
		"namespace", ref.Namespace, "name", ref.Name, "took", took.String(), "refusal", redactedError(resource, err))
}

// maxLoggedError limits the bytes of a logged error, which may quote the whole request.
const maxLoggedError = 500

// quotedText matches the values that an error quotes.
var quotedText = regexp.MustCompile(`(?s)"(\\.|[^"\\])*"?|` + "`[^`]*`?")

// redactedError returns an error for the log. It removes quoted values of Secrets.
func redactedError(resource schema.GroupResource, err error) string {
	text := errorText(err)
	if resource == (schema.GroupResource{Resource: "secrets"}) {
		text = quotedText.ReplaceAllString(text, `"…"`)
	}
	if len(text) > maxLoggedError {
		text = strings.ToValidUTF8(text[:maxLoggedError], "") + "…"
	}
	return text
}

// dashboardSources returns the processes that the dashboard shows: this one first. The
// Source of this process stays the same, since pages wait for its changes.
func (m *Manager) dashboardSources() func(context.Context) []model.Source {
	own := m.Inspect()
	return func(ctx context.Context) []model.Source {
		all := []model.Source{own}
		if m.options.DevDashboard.OtherSources == nil {
			return all
		}
		for _, other := range m.options.DevDashboard.OtherSources(ctx) {
			// Discovery also finds this process.
			if other.Name() != own.Name() {
				all = append(all, other)
			}
		}
		return all
	}
}
