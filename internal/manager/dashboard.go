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

// Dashboard says where the window is, the pages in which one sees what controllers do,
// and how its visitors are known: by a token with which they sign in, or by the headers
// of a proxy. The zero value has none.
type Dashboard struct {
	// Address is where it is served, such as ":8443"; "" for nowhere.
	Address string
	// CertFile and KeyFile are of TLS, in PEM. They are read again when they change.
	CertFile, KeyFile string
	// UserHeader and GroupsHeader are those in which a proxy says who it has signed in,
	// such as "X-Forwarded-User"; nobody is believed without. Requests are made as that
	// user by impersonation.
	UserHeader, GroupsHeader string
	// UserPrefix and GroupsPrefix begin the names that the API server sees, such as "sso:":
	// users and groups of the directory are none of the cluster's own then.
	UserPrefix, GroupsPrefix string
	// TrustedProxies are the addresses of such proxies, or the networks, such as
	// "10.0.0.0/8"; loopback if there is none.
	TrustedProxies []string
	// Hosts are the names under which the window is visited through such a proxy, such as
	// "setpoint.example.com". Under another nobody is believed; if there is none, under any
	// that is not localhost or an address.
	Hosts []string
	// SessionLifetime is how long one who has signed in stays so; 12 hours if zero.
	SessionLifetime time.Duration
}

// DevDashboard is a window without sign-in, on loopback, for development.
type DevDashboard struct {
	// Listener is where it is served; nil for nowhere.
	Listener net.Listener
	// OtherSources are processes that are shown beside this one; none if nil.
	OtherSources func(context.Context) []model.Source
}

// check refuses what could only fail later.
func (w *Dashboard) check() error {
	if (w.CertFile == "") != (w.KeyFile == "") {
		return errors.New("TLS of the window takes a certificate and a key: name both files, or none")
	}
	for _, prefix := range []string{w.UserPrefix, w.GroupsPrefix} {
		if strings.HasPrefix(prefix, "system:") {
			return fmt.Errorf("the prefix %q is one of Kubernetes' own names: take another one, such as %q", prefix, "sso:")
		}
	}
	_, err := w.proxies()
	return err
}

// proxies are the networks of those that are trusted.
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

// access says how visitors are known.
func (w *Dashboard) access() (access.Options, error) {
	proxies, err := w.proxies()
	return access.Options{
		Headers:  access.Headers{User: w.UserHeader, Groups: w.GroupsHeader, UserPrefix: w.UserPrefix, GroupsPrefix: w.GroupsPrefix, Trusted: proxies},
		Hosts:    w.Hosts,
		Lifetime: w.SessionLifetime,
		Secure:   w.CertFile != "" || len(proxies) > 0,
	}, err
}

// exposesTokens says that tokens of visitors would be readable on their way.
func (w *Dashboard) exposesTokens() bool {
	return w.CertFile == "" && !isLoopbackAddress(w.Address) && len(w.TrustedProxies) == 0
}

func isLoopbackAddress(address string) bool {
	host, _, err := net.SplitHostPort(address)
	ip := net.ParseIP(host)
	return err == nil && (host == "localhost" || ip != nil && ip.IsLoopback())
}

// startDashboard opens the doors at which the window is, of which there may be none.
func (m *Manager) startDashboard(ctx context.Context) ([]httpEndpoint, error) {
	var doors []httpEndpoint
	if at := m.options.DevDashboard.Listener; at != nil {
		handler, err := m.newDashboard(access.Options{Open: true})
		if err != nil {
			return nil, err
		}
		doors = append(doors, httpEndpoint{at, handler})
	}
	w := m.options.Dashboard
	if w.Address == "" {
		return doors, nil
	}
	by, err := w.access()
	if err != nil {
		return doors, err
	}
	handler, err := m.newDashboard(by)
	if err != nil {
		return doors, err
	}
	listener, err := w.listen(ctx, m.log)
	if err != nil {
		return doors, fmt.Errorf("serve the window: %w", err)
	}
	m.log.Info("serving the window", "address", listener.Addr().String(), "tls", w.CertFile != "")
	if w.exposesTokens() {
		m.log.Warn("tokens with which visitors of the window sign in can be read on their way: " +
			"give it a certificate (--ui-tls-cert-file), or a proxy that has one (--ui-trusted-proxies)")
	}
	return append(doors, httpEndpoint{listener, handler}), nil
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

// newDashboard makes its pages, for visitors that are known in a way.
func (m *Manager) newDashboard(by access.Options) (*dashboard.Server, error) {
	api, err := userclient.New(m.options.Config)
	if err != nil {
		return nil, fmt.Errorf("make the window: %w", err)
	}
	api.OnWrite = m.logWrite
	return dashboard.New(dashboard.Options{Cluster: api, Access: by, Sources: m.dashboardSources(), Version: m.options.Version, Log: m.log})
}

// logWrite logs what a visitor has changed, or was refused.
func (m *Manager) logWrite(user, verb string, ref model.Ref, err error, took time.Duration) {
	resource := schema.GroupResource{Group: ref.Group, Resource: ref.Plural}
	m.log.Info("written by a visitor of the window", "user", user, "verb", verb, "resource", resource.String(),
		"namespace", ref.Namespace, "name", ref.Name, "took", took.String(), "refusal", redactedError(resource, err))
}

// maxLoggedError is how much of a refusal is logged, in bytes: it may quote all that was sent.
const maxLoggedError = 500

// quotedText is what a refusal repeats of an object, as far as it can be told.
var quotedText = regexp.MustCompile(`(?s)"(\\.|[^"\\])*"?|` + "`[^`]*`?")

// redactedError is a refusal as it is logged. That of a Secret may quote its values.
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

// dashboardSources are the processes that the window shows: this one, and others. It is the same
// Source from one time to the next, as pages await the changes of each.
func (m *Manager) dashboardSources() func(context.Context) []model.Source {
	own := m.Inspect()
	return func(ctx context.Context) []model.Source {
		all := []model.Source{own}
		if m.options.DevDashboard.OtherSources == nil {
			return all
		}
		for _, other := range m.options.DevDashboard.OtherSources(ctx) {
			// What publishes where it is, is found by itself too.
			if other.Name() != own.Name() {
				all = append(all, other)
			}
		}
		return all
	}
}
