package supportbundle

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/setpoint-dev/setpoint/internal/cli/client"
	"github.com/setpoint-dev/setpoint/internal/cli/processes"
	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/manager"
	"github.com/setpoint-dev/setpoint/internal/must"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// largeProcess manages 100,000 objects that all fail.
type largeProcess struct{ inspect.Source }

func (largeProcess) Name() string { return "large" }

func (largeProcess) Process(context.Context) (inspect.Process, error) {
	return inspect.Process{Name: "large"}, nil
}

func (largeProcess) Diagnostic(_ context.Context, name string) ([]byte, error) {
	switch name {
	case inspect.DiagnosticGoroutines:
		return nil, errors.New("unknown endpoint")
	case inspect.DiagnosticCommand:
		return []byte("program\n--api-token\nplanted\n--workers\n7\n"), nil
	}
	return bytes.Repeat([]byte("a line\n"), maxFile/4), nil
}

func (largeProcess) Controllers(context.Context) ([]inspect.Controller, error) {
	var all []inspect.Controller
	for i := range 50 {
		name := fmt.Sprintf("c-%d", i)
		declared := &object.Ref{Kind: object.Kind{Kind: "HandlerController"}, Name: name}
		all = append(all, inspect.Controller{Name: name, Failing: 2000, Declared: declared})
	}
	return all, nil
}

func (largeProcess) Objects(_ context.Context, controller string, q inspect.Query) (inspect.Page, error) {
	page := inspect.Page{States: map[inspect.State]int{inspect.StateFailing: 2000}}
	for range q.Limit {
		page.Objects = append(page.Objects, inspect.ObjectState{Controller: controller, Error: "password=planted"})
	}
	return page, nil
}

func (largeProcess) Runs(context.Context, object.Ref, int) ([]inspect.Run, error) {
	return []inspect.Run{{ID: 1<<63 + 1, Error: "token: planted"}}, nil
}

// everything is a user who may read everything.
type everything struct{}

func (everything) CanI(context.Context, string, object.Kind, string, string) (bool, error) {
	return true, nil
}

// serve serves lists that have more than a page, or none that the user may read.
func serve(t *testing.T, forbidden bool) *rest.Config {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch {
		case forbidden:
			w.WriteHeader(http.StatusForbidden)
			fmt.Fprintf(w, `{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Forbidden", "message": "%s is forbidden", "code": 403}`, r.URL.Path)
		case r.URL.Path == "/version":
			fmt.Fprint(w, `{"gitVersion": "v1.36.3"}`)
		case strings.HasSuffix(r.URL.Path, "/log"):
			fmt.Fprint(w, "password=planted "+strings.Repeat("x", maxFile)+"\ntoken=planted\nthe end\n")
		case r.URL.Query().Get("limit") != "500":
			t.Errorf("a request without a limit: %s", r.URL)
		default:
			fmt.Fprint(w, `{"kind": "PodList", "apiVersion": "v1", "metadata": {"continue": "more", "remainingItemCount": 99500}, "items": [
				{"metadata": {"name": "setpoint-b", "namespace": "setpoint-system"}, "spec": {"containers": [{"name": "setpoint", "env": [{"name": "A", "value": "planted"}]}]}},
				{"metadata": {"name": "setpoint-a", "namespace": "setpoint-system"}, "status": {"containerStatuses": [{"name": "setpoint", "restartCount": 1}]}}]}`)
		}
	}))
	t.Cleanup(server.Close)
	return &rest.Config{Host: server.URL}
}

// write returns the files of a bundle of processes and a cluster.
func write(t *testing.T, user client.AccessReviewer, api *rest.Config, missing error, sources ...inspect.Source) (files map[string]string,
	names []string) {
	t.Helper()
	var out bytes.Buffer
	a := newArchive(&out, time.Unix(0, 0))
	if missing != nil {
		a.miss("processes", missing)
	}
	(&collector{archive: a, Session: &processes.Session{
		ReadFlags: &processes.ReadFlags{LeaseNamespace: "setpoint-system"}, Sources: sources,
		Client: &client.Client{AccessReviewer: user}, Target: manager.Cluster{Config: api},
	}}).read(t.Context())
	must.Succeed(t, a.close())
	compressed := must.Get(gzip.NewReader(&out)).In(t)
	files = map[string]string{}
	for archive := tar.NewReader(compressed); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return files, names
		}
		must.Succeed(t, err)
		data := must.Get(io.ReadAll(archive)).In(t)
		name, ours := strings.CutPrefix(header.Name, root)
		if !ours || header.Mode != 0o600 {
			t.Errorf("%s has mode %o", header.Name, header.Mode)
		}
		files[name] = string(data)
		names = append(names, name)
	}
}

func wantSummary(t *testing.T, files map[string]string, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if !strings.Contains(files["summary.txt"], text) {
			t.Errorf("no %q in\n%s", text, files["summary.txt"])
		}
	}
}

func TestLargeClusterIsBounded(t *testing.T) {
	files, names := write(t, everything{}, serve(t, false), nil, largeProcess{}, largeProcess{})
	for name, data := range files {
		if len(data) > maxFile {
			t.Errorf("%s has %d bytes", name, len(data))
		}
		if strings.Contains(data, "planted") {
			t.Errorf("%s has a secret", name)
		}
	}
	if n := strings.Count(files["processes/1/failing.json"], `"runs"`); n != 50*maxObjects {
		t.Errorf("%d failing objects", n)
	}
	for file, text := range map[string]string{
		"processes/2/command.txt":                                          "--workers 7",
		"processes/1/failing.json":                                         "9223372036854775809", // the ID of a run, not rounded
		"namespaces/setpoint-system/logs/setpoint-a/setpoint.log":          "the end",
		"namespaces/setpoint-system/logs/setpoint-a/setpoint.previous.log": "the end",
	} {
		if !strings.Contains(files[file], text) {
			t.Errorf("%s has no %q: %.300s", file, text, files[file])
		}
	}
	wantSummary(t, files, "logs: the processes do not run in pods", "processes/1/metrics.txt: cut to",
		"processes/1/goroutines.txt: unknown endpoint", "1990 objects of c-0, beyond the first 10",
		"namespaces/setpoint-system/leases.json: all but the first 2 objects")
	again, order := write(t, everything{}, serve(t, false), nil, largeProcess{}, largeProcess{})
	if strings.Join(order, "\n") != strings.Join(names, "\n") ||
		again["namespaces/setpoint-system/pods.json"] != files["namespaces/setpoint-system/pods.json"] {
		t.Errorf("two bundles differ:\n%v\n%v", names, order)
	}
}

func TestLittleIsRead(t *testing.T) {
	files, _ := write(t, everything{}, serve(t, true), errors.New("no process with controllers found"))
	wantSummary(t, files, "no process with controllers found", "namespaces/setpoint-system/pods.json: ", "is forbidden")
}

// blind may read all controllers but one, and no object.
type blind struct{}

func (blind) CanI(_ context.Context, verb string, kind object.Kind, _, name string) (bool, error) {
	return verb == "get" && kind.Kind == "HandlerController" && name != "c-0", nil
}

func TestHidden(t *testing.T) {
	files, _ := write(t, blind{}, serve(t, false), nil, largeProcess{})
	wantSummary(t, files, "controllers.json: 1 controllers that you may not read",
		"failing.json: 2000 objects of c-1, beyond the first 10 or not yours to read")
	if strings.Contains(files["processes/1/failing.json"], "c-1") {
		t.Error("an object is shown")
	}
}
