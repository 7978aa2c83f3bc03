// Package clitest has what tests of several commands need: processes and users that are played, a cluster, and objects.
package clitest

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// FakeProcess reports which controllers it runs, and ends on request.
type FakeProcess struct {
	inspect.Source
	name string
	// Info is what it says of itself.
	Info inspect.Process
	// Hangs means that it accepts requests and never responds.
	Hangs bool
	Ended chan struct{}
	all   []inspect.Controller
}

// NewFakeProcess returns a process that runs a controller of its name.
func NewFakeProcess(name string) *FakeProcess {
	return &FakeProcess{name: name, Ended: make(chan struct{}), all: []inspect.Controller{{Name: name}}}
}

// Name is the name of the process.
func (p *FakeProcess) Name() string { return p.name }

// Process returns what it says of itself.
func (p *FakeProcess) Process(context.Context) (inspect.Process, error) { return p.Info, nil }

// Controllers returns its controllers, until it ends.
func (p *FakeProcess) Controllers(ctx context.Context) ([]inspect.Controller, error) {
	if p.Hangs {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	select {
	case <-p.Ended:
		return nil, errors.New("connection refused")
	default:
		return p.all, nil
	}
}

// Await waits until it ends.
func (p *FakeProcess) Await(ctx context.Context, since uint64) (uint64, error) {
	if since == 0 {
		return 1, nil
	}
	select {
	case <-p.Ended:
		return 0, errors.New("connection reset")
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

// WithControllers lets a process run these controllers.
func WithControllers(p *FakeProcess, all []inspect.Controller) *FakeProcess {
	p.all = all
	return p
}

// AllowedVerbs are rights, such as "get teams in shop"; of all namespaces "list teams in ".
type AllowedVerbs []string

// CanI reports whether the rights have the verb.
func (a AllowedVerbs) CanI(_ context.Context, verb string, kind object.Kind, namespace, _ string) (bool, error) {
	if kind.Plural == "" {
		kind.Plural = strings.ToLower(kind.Kind) + "s"
	}
	return slices.Contains(a, verb+" "+kind.Plural+" in "+namespace), nil
}

// Team is an object.
func Team() object.Ref {
	return object.Ref{Kind: object.Kind{Group: "example.com", Version: "v1", Plural: "teams", Kind: "Team", Namespaced: true},
		Namespace: "shop", Name: "red"}
}

// Pod is an object of another kind.
func Pod(name string) object.Ref {
	return object.Ref{Kind: object.Kind{Version: "v1", Plural: "pods", Kind: "Pod", Namespaced: true}, Namespace: "shop", Name: name}
}

// Noon is a time.
func Noon() time.Time { return time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC) }

// UseCluster has the commands of a test reach an API server, and no other cluster.
func UseCluster(t *testing.T, server http.Handler) {
	t.Helper()
	api := httptest.NewServer(server)
	t.Cleanup(api.Close)
	file := filepath.Join(t.TempDir(), "config.yaml")
	text := `{apiVersion: v1, kind: Config, clusters: [{name: a, cluster: {server: "` + api.URL + `"}}],
contexts: [{name: a, context: {cluster: a, namespace: shop}}], current-context: a}`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("KUBECONFIG", file)
}
