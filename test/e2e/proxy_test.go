package e2e

import (
	"io"
	"net"
	"net/url"
	"os"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/rogpeppe/go-internal/testscript"
)

// proxyKey is where a script has its proxy.
type proxyKey struct{}

// proxy stands between programs and the API server. It can fall silent: it then drops
// what the server sends on open connections, without closing them. It can also close them.
type proxy struct {
	server   string
	silences atomic.Int64
	open     sync.Map
}

// proxyCommand: proxy FILE: starts a proxy, and writes a kubeconfig that leads
// through it. proxy silence: has it fall silent. proxy cut: has it close the open connections.
func proxyCommand(ts *testscript.TestScript, neg bool, args []string) {
	p := ts.Value(proxyKey{}).(*proxy)
	if neg || len(args) != 1 {
		ts.Fatalf("usage: proxy FILE|silence|cut")
	}
	switch args[0] {
	case "silence":
		p.silences.Add(1)
		return
	case "cut":
		p.open.Range(func(near, _ any) bool {
			_ = near.(net.Conn).Close() // Either side may have closed it.
			return true
		})
		return
	}
	out, err := run(ts, "", "kubectl", "config", "view", "--minify", "-o", "jsonpath={.clusters[0].cluster.server}")
	ts.Check(err)
	server, err := url.Parse(strings.TrimSpace(out.stdout.String()))
	ts.Check(err)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	ts.Check(err)
	ts.Defer(func() { _ = listener.Close() })
	config := strings.ReplaceAll(ts.ReadFile(ts.Getenv("KUBECONFIG")), server.Host, listener.Addr().String())
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(config), 0o600))
	p.server = server.Host
	go p.serve(listener)
}

// serve ends when the listener is closed, and each connection with one of its ends.
func (p *proxy) serve(listener net.Listener) {
	for {
		near, err := listener.Accept()
		if err != nil {
			return
		}
		go p.connect(near)
	}
}

func (p *proxy) connect(near net.Conn) {
	defer near.Close()
	p.open.Store(near, true)
	defer p.open.Delete(near)
	far, err := net.Dial("tcp", p.server)
	if err != nil {
		return
	}
	opened := p.silences.Load()
	go func() {
		defer near.Close()
		_, _ = io.Copy(silencer{near, func() bool { return p.silences.Load() != opened }}, far) // either side may close it
	}()
	_, _ = io.Copy(far, near)
	_ = far.Close()
}

// silencer swallows what is written when it is silent.
type silencer struct {
	to     io.Writer
	silent func() bool
}

func (s silencer) Write(data []byte) (int, error) {
	if s.silent() {
		return len(data), nil
	}
	return s.to.Write(data)
}
