package bundle

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

	"github.com/setpoint-dev/setpoint/internal/dashboard/model"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// largeProcess manages 100,000 objects that all fail.
type largeProcess struct{ model.Source }

func (largeProcess) Name() string { return "large" }

func (largeProcess) Process(context.Context) (model.Process, error) {
	return model.Process{Name: "large"}, nil
}

func (largeProcess) Requests(context.Context) (model.Requests, error) { return model.Requests{}, nil }

func (largeProcess) Diagnostic(_ context.Context, name string) ([]byte, error) {
	switch name {
	case model.DiagnosticHeap:
		return nil, errors.New("unknown endpoint")
	case model.DiagnosticCommand:
		return []byte("program\n--api-token\nplanted\n--workers\n7\n"), nil
	}
	return bytes.Repeat([]byte("a line\n"), maxFile/4), nil
}

func (largeProcess) Controllers(context.Context) ([]model.Controller, error) {
	var all []model.Controller
	for i := range 50 {
		all = append(all, model.Controller{Name: fmt.Sprintf("c-%d", i), Failing: 2000})
	}
	return all, nil
}

func (largeProcess) Objects(_ context.Context, controller string, q model.Query) (model.Page, error) {
	page := model.Page{Matching: 2000}
	for range q.Limit {
		page.Objects = append(page.Objects, model.ObjectState{Controller: controller, Error: "password=planted"})
	}
	return page, nil
}

func (largeProcess) Runs(context.Context, object.Ref, int) ([]model.Run, error) {
	return []model.Run{{ID: 1<<63 + 1, Error: "token: planted"}}, nil
}

// everything is a user who may read everything.
type everything struct{}

func (everything) Err() error { return nil }

func (everything) Controllers(_ context.Context, all []model.Controller) []model.Controller {
	return all
}
func (everything) State(_ context.Context, state model.ObjectState) any { return state }
func (everything) Run(_ context.Context, run model.Run) model.Run       { return run }

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
			fmt.Fprint(w, strings.Repeat("x", maxLogSize-20)+"\ntoken=planted\n")
		case r.URL.Query().Get("limit") != "500":
			t.Errorf("a request without a limit: %s", r.URL)
		default:
			fmt.Fprint(w, `{"kind": "PodList", "apiVersion": "v1", "metadata": {"continue": "more", "remainingItemCount": 99500}, "items": [
				{"metadata": {"name": "setpoint-b", "namespace": "setpoint-system"}, "spec": {"containers": [{"name": "setpoint", "env": [{"name": "A", "value": "planted"}]}]}},
				{"metadata": {"name": "setpoint-a", "namespace": "setpoint-system"}, "spec": {"containers": []}}]}`)
		}
	}))
	t.Cleanup(server.Close)
	return &rest.Config{Host: server.URL}
}

// write returns the files of a bundle.
func write(ctx context.Context, t *testing.T, o Options) (files map[string]string, names []string) {
	t.Helper()
	o.Version, o.Time, o.LogLines = map[string]string{"version": "v1"}, time.Unix(0, 0), 10
	if o.Visible == nil {
		o.Visible = everything{}
	}
	o.Namespaces, o.Progress = []string{"setpoint-system"}, func(string) {}
	var out bytes.Buffer
	if _, err := Write(ctx, &out, o); err != nil {
		t.Fatal(err)
	}
	compressed, err := gzip.NewReader(&out)
	if err != nil {
		t.Fatal(err)
	}
	files = map[string]string{}
	for archive := tar.NewReader(compressed); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return files, names
		}
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(archive)
		if err != nil {
			t.Fatal(err)
		}
		name, ours := strings.CutPrefix(header.Name, root)
		if !ours || header.Mode != 0o600 {
			t.Errorf("%s has mode %o", header.Name, header.Mode)
		}
		files[name] = string(data)
		names = append(names, name)
	}
}

// TestTail keeps the whole lines at the end of a log.
func TestTail(t *testing.T) {
	for _, c := range []struct {
		log, want string
		left      int
	}{
		{"a\nb\n", "a\nb\n", 0},
		{"password=planted\nlast\n", "last\n", 17},
		{strings.Repeat("0123456\n", 100_000) + "last\n", "last\n", 800_000},
		{"a line without an end", "", 21},
	} {
		text, left, err := tail(strings.NewReader(c.log), 10)
		if string(text) != c.want || left != c.left || err != nil {
			t.Errorf("%.30s: %q, %d, %v", c.log, text, left, err)
		}
	}
}

// A bundle of a large cluster has limits, and says what it left out.
func TestLargeClusterIsBounded(t *testing.T) {
	const limit = 20 << 20
	files, names := write(t.Context(), t, Options{Config: serve(t, false), Sources: []model.Source{largeProcess{}, largeProcess{}}, MaxBytes: limit})
	size := 0
	for name, data := range files {
		size += len(data)
		if len(data) > maxFile+len(masked) {
			t.Errorf("%s has %d bytes", name, len(data))
		}
		if strings.Contains(data, "planted") {
			t.Errorf("%s has a secret", name)
		}
	}
	if size > limit+len(files["summary.txt"]) {
		t.Errorf("%d bytes", size)
	}
	if n := strings.Count(files["processes/large/failing.json"], `"runs"`); n != maxAllObjects {
		t.Errorf("%d failing objects", n)
	}
	if !strings.Contains(files["processes/large/command.json"], `"7"`) {
		t.Errorf("the command line is %s", files["processes/large/command.json"])
	}
	if !strings.Contains(files["processes/large/failing.json"], "9223372036854775809") {
		t.Error("the ID of a run is rounded")
	}
	for _, text := range []string{
		"logs: the processes do not run in pods", "processes/large/metrics.txt: cut to", "processes/large/heap.pprof: unknown endpoint", "1990 of 2000 objects of c-0 that are Failing",
		"cluster/rbac/clusterroles.yaml: all but the first 2 objects (99500 more)", "left out: the bundle would be larger",
	} {
		if !strings.Contains(files["summary.txt"], text) {
			t.Errorf("no %q in\n%s", text, files["summary.txt"])
		}
	}
	again, order := write(t.Context(), t, Options{Config: serve(t, false), Sources: []model.Source{largeProcess{}, largeProcess{}}, MaxBytes: limit})
	if strings.Join(order, "\n") != strings.Join(names, "\n") || again["cluster/rbac/clusterroles.yaml"] != files["cluster/rbac/clusterroles.yaml"] {
		t.Errorf("two bundles differ:\n%v\n%v", names, order)
	}
}

// Without rights, without processes and without time there is a bundle that says so.
func TestLittleIsRead(t *testing.T) {
	files, _ := write(t.Context(), t, Options{Config: serve(t, true), MaxBytes: 1 << 20, Missing: []error{errors.New("no process with controllers found")}})
	for _, text := range []string{"no process with controllers found", "namespaces/setpoint-system/pods.yaml: ", "is forbidden"} {
		if !strings.Contains(files["summary.txt"], text) {
			t.Errorf("no %q in\n%s", text, files["summary.txt"])
		}
	}
	late, cancel := context.WithTimeout(t.Context(), -1)
	defer cancel()
	files, _ = write(late, t, Options{Config: serve(t, false), MaxBytes: 1 << 20})
	if strings.Count(files["summary.txt"], "cluster/crds.yaml: ") != 1 {
		t.Errorf("not said: %s", files["summary.txt"])
	}
}

// unreviewed is a user whose permissions are not known, because access reviews fail.
type unreviewed struct {
	everything
	err error
}

func (unreviewed) Controllers(_ context.Context, all []model.Controller) []model.Controller {
	return all[1:]
}
func (unreviewed) State(context.Context, model.ObjectState) any { return nil }
func (u unreviewed) Err() error                                 { return u.err }

// What is hidden because access reviews fail is not called forbidden.
func TestHidden(t *testing.T) {
	for _, c := range []struct {
		err  error
		want []string
	}{
		{nil, []string{"controllers.json: you may not read 1 controller\n", "failing.json: you may not read 10 objects of c-1"}},
		{errors.New("no response"), []string{"controllers.json: 1 controller left out: no response", "failing.json: 10 objects of c-1 left out: no response"}},
	} {
		files, _ := write(t.Context(), t, Options{Config: serve(t, false), Sources: []model.Source{largeProcess{}}, Visible: unreviewed{err: c.err}, MaxBytes: 1 << 20})
		for _, text := range c.want {
			if !strings.Contains(files["summary.txt"], text) {
				t.Errorf("no %q in\n%s", text, files["summary.txt"])
			}
		}
	}
}

// A user who cancels gets an error.
func TestCanceled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := Write(ctx, io.Discard, Options{Config: serve(t, false), Progress: func(string) {}, Visible: everything{}})
	if !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
