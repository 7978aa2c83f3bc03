package host

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"time"

	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/ui"
	"github.com/setpoint-dev/setpoint/internal/ui/access"
	"github.com/setpoint-dev/setpoint/internal/ui/cluster"
)

// Window says where the window is, the pages in which one sees what controllers do,
// and who may see it. The zero value has none.
type Window struct {
	// Address is where it is served, such as ":8443"; "" for nowhere. Listener, if
	// set, is open already, and used in its place.
	Address  string
	Listener net.Listener
	// CertFile and KeyFile are of TLS, in PEM. They are read again when they change.
	CertFile, KeyFile string
	// Access says how visitors are known.
	Access access.Options
	// Others are processes that are shown beside this one; none if nil.
	Others func(context.Context) []inspect.Source
}

// check refuses what could only fail later.
func (w *Window) check() error {
	if (w.CertFile == "") != (w.KeyFile == "") {
		return fmt.Errorf("TLS of the window takes a certificate and a key: both files, or none")
	}
	if w.Access.Open && !loopbackAddress(w.address()) {
		return fmt.Errorf("the window at %s would be open to everybody: that is for loopback alone", w.address())
	}
	return nil
}

func (w *Window) wanted() bool { return w.address() != "" }

func (w *Window) address() string {
	if w.Listener != nil {
		return w.Listener.Addr().String()
	}
	return w.Address
}

// exposed says that tokens of visitors would be readable on their way.
func (w *Window) exposed() bool {
	return w.CertFile == "" && !loopbackAddress(w.address()) && len(w.Access.Headers.Trusted) == 0
}

func loopbackAddress(address string) bool {
	host, _, err := net.SplitHostPort(address)
	ip := net.ParseIP(host)
	return err == nil && (host == "localhost" || ip != nil && ip.IsLoopback())
}

// openWindow makes the door at which the window is; its listener is nil without one.
func (h *Host) openWindow(ctx context.Context) (door, error) {
	w := h.options.Window
	if !w.wanted() {
		return door{}, nil
	}
	pages, err := h.window(w)
	if err != nil {
		return door{}, fmt.Errorf("make the window: %w", err)
	}
	listener := w.Listener
	if listener == nil {
		var config net.ListenConfig
		if listener, err = config.Listen(ctx, "tcp", w.Address); err != nil {
			return door{}, fmt.Errorf("serve the window: %w", err)
		}
	}
	scheme := "http"
	if w.CertFile != "" {
		certificate := &certificateFiles{cert: w.CertFile, key: w.KeyFile, now: time.Now}
		if _, err := certificate.current(nil); err != nil {
			return door{}, err
		}
		listener = tls.NewListener(listener, &tls.Config{
			MinVersion: tls.VersionTLS12, GetCertificate: certificate.current, NextProtos: []string{"h2", "http/1.1"},
		})
		scheme = "https"
	}
	h.log.Info("serving the window", "url", scheme+"://"+listener.Addr().String()+"/")
	if w.exposed() {
		h.log.Warn("whoever is on the way to the window can read the tokens that visitors sign in with: " +
			"give it a certificate (--ui-tls-cert-file, --ui-tls-key-file), or a proxy in front of it that has one (--ui-trusted-proxies)")
	}
	return door{listener, pages}, nil
}

// window makes its pages.
func (h *Host) window(w Window) (*ui.Server, error) {
	api, err := cluster.New(h.options.Config)
	if err != nil {
		return nil, err
	}
	api.OnWrite = func(user, verb string, ref inspect.Ref, err error, took time.Duration) {
		h.log.Info("written in the window", "user", user, "verb", verb, "kind", ref.Kind.Kind,
			"namespace", ref.Namespace, "name", ref.Name, "took", took.String(), "refusal", textOf(err))
	}
	own := h.Inspect()
	options := ui.Options{
		Cluster: api, Access: w.Access, Version: h.options.Version, Log: h.log,
		Sources: func(ctx context.Context) []inspect.Source {
			all := []inspect.Source{own}
			if w.Others == nil {
				return all
			}
			for _, other := range w.Others(ctx) {
				// What publishes where it is, is found by itself too.
				if other.Name() != own.Name() {
					all = append(all, other)
				}
			}
			return all
		},
	}
	options.Access.Secure = options.Access.Secure || w.CertFile != ""
	options.Version = cmp.Or(options.Version, "dev")
	return ui.New(options)
}
