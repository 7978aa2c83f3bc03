package conflicts

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	setpoint "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/must"
	"github.com/setpoint-dev/setpoint/internal/object"
)

func TestIsMetacontrollerImage(t *testing.T) {
	for image, want := range map[string]bool{
		"ghcr.io/metacontroller/metacontroller:v4.17.2":       true,
		"ghcr.io/metacontroller/metacontroller@sha256:0123":   true,
		"metacontrollerio/metacontroller:v1.5.12":             true,
		"mirror.example:5000/metacontroller":                  true,
		"mirror.example:5000/a/metacontroller:v4@sha256:0123": true,
		"metacontroller":                      true,
		"ghcr.io/setpoint-dev/setpoint:v1":    false,
		"example.org/metacontroller/hooks:v1": false,
		"example.org/not-a-metacontroller":    false,
		"metacontroller.example:5000/nginx":   false,
		"":                                    false,
	} {
		if got := isMetacontrollerImage(image); got != want {
			t.Errorf("%s: %v", image, got)
		}
	}
}

func TestCandidatesByImageOrLabel(t *testing.T) {
	row := func(metadata, images string) metav1.TableRow {
		return metav1.TableRow{Cells: []any{"1/1", images}, Object: runtime.RawExtension{Raw: []byte(`{"metadata":` + metadata + `}`)}}
	}
	table := &metav1.Table{
		ColumnDefinitions: []metav1.TableColumnDefinition{{Name: "Ready"}, {Name: "Images"}},
		Rows: []metav1.TableRow{
			row(`{"name":"by-image"}`, "envoy:1,ghcr.io/metacontroller/metacontroller:v4"),
			row(`{"name":"by-label","labels":{"app.kubernetes.io/name":"metacontroller"}}`, "example.org/mc:4"),
			row(`{"name":"other"}`, "example.org/metacontroller-hooks:1"),
			row(`[]`, "metacontroller"),
		},
	}
	names := lists.Map(candidates(table), func(o *metav1.PartialObjectMetadata) string { return o.Name })
	if got := strings.Join(names, " "); got != "by-image by-label" {
		t.Errorf("found %s", got)
	}
}

func TestTargetSelector(t *testing.T) {
	for args, want := range map[string]string{
		"":                                 "<nil>",
		"--zap-log-level=4":                "<nil>",
		"--target-label-selector=team=web": "team=web",
		"-target-label-selector team=web":  "team=web",
		"--target-label-selector":          "<nil>",
		"--target-label-selector=":         "<nil>",
		"--target-label-selector=((":       "<nil>",
	} {
		c := corev1.Container{Command: []string{"/usr/bin/metacontroller"}, Args: strings.Fields(args)}
		got := "<nil>"
		if selector := targetSelector([]corev1.Container{{}, c}); selector != nil {
			got = selector.String()
		}
		if got != want {
			t.Errorf("%s: %s, want %s", args, got, want)
		}
	}
}

func controllerObject(t *testing.T, metadata string) *object.Object {
	t.Helper()
	return must.Get(object.Parse([]byte(`{"metadata":` + metadata + `}`))).In(t)
}

func TestConflictWithMetacontroller(t *testing.T) {
	all := []metacontroller{{name: "StatefulSet a/mc"}}
	web := []metacontroller{{name: "StatefulSet a/mc", targets: labels.SelectorFromSet(labels.Set{"team": "web"})}}
	for name, c := range map[string]struct {
		found           []metacontroller
		failure         error
		metadata        string
		refusal, noting bool
		failing         bool
	}{
		"none":                   {metadata: `{}`},
		"one":                    {found: all, metadata: `{}`, refusal: true},
		"ignored by annotation":  {found: all, metadata: `{"annotations":{"setpoint.dev/ignore-metacontroller":"true"}}`},
		"one limited to others":  {found: web, metadata: `{"labels":{"team":"shop"}}`},
		"one limited to this":    {found: web, metadata: `{"labels":{"team":"web"}}`, refusal: true},
		"forbidden":              {failure: apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "", errors.New("no")), metadata: `{}`, noting: true},
		"API server unreachable": {failure: errors.New("refused"), metadata: `{}`, failing: true},
	} {
		t.Run(name, func(t *testing.T) {
			d := &Detector{now: time.Now, find: func(context.Context) ([]metacontroller, error) { return c.found, c.failure }}
			notes, err := d.Check(t.Context(), controllerObject(t, c.metadata))
			refusal, refused := errors.AsType[*compile.Refusal](err)
			if refused != c.refusal || (len(notes) > 0) != c.noting || (err != nil) != (c.refusal || c.failing) {
				t.Fatalf("notes %q, error %v", notes, err)
			}
			if refused && (refusal.Reason != setpoint.ReasonConflictingMetacontroller || !strings.Contains(err.Error(), "StatefulSet a/mc")) {
				t.Errorf("%s: %v", refusal.Reason, err)
			}
		})
	}
}

// Many controllers are compiled at the start: they share one result.
func TestMetacontrollersAreFoundPeriodically(t *testing.T) {
	calls, now := 0, time.Unix(0, 0)
	d := &Detector{now: func() time.Time { return now }, find: func(context.Context) ([]metacontroller, error) { calls++; return nil, nil }}
	now = now.Add(time.Hour)
	for range 3 {
		must.Get(d.get(t.Context())).In(t)
	}
	now = now.Add(DetectInterval)
	must.Get(d.get(t.Context())).In(t)
	if calls != 2 {
		t.Errorf("%d calls", calls)
	}
	d.find = func(context.Context) ([]metacontroller, error) { return []metacontroller{{name: "new"}}, nil }
	if !d.RefreshChanged(t.Context()) || d.RefreshChanged(t.Context()) {
		t.Error("a change is reported once")
	}
	d.find = func(context.Context) ([]metacontroller, error) { return nil, errors.New("refused") }
	if d.RefreshChanged(t.Context()) || len(d.found) != 1 {
		t.Error("a failed detection changed the result")
	}
}

// With Metacontroller's flags the leader Lease may have Metacontroller's name. It does not
// count, except in another namespace.
func TestOwnLeaseIsNoMetacontroller(t *testing.T) {
	fresh := time.Now().UTC().Format("2006-01-02T15:04:05.000000Z")
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"items":[{"metadata":{"namespace":"ours","name":"metacontroller"},"spec":{"holderIdentity":"a","renewTime":%[1]q}},
			{"metadata":{"namespace":"theirs","name":"metacontroller"},"spec":{"holderIdentity":"b","renewTime":%[1]q}}]}`, fresh)
	}))
	t.Cleanup(server.Close)
	client := must.Get(rest.UnversionedRESTClientFor(&rest.Config{Host: server.URL, ContentConfig: rest.ContentConfig{NegotiatedSerializer: scheme.Codecs.WithoutConversion()}})).In(t)
	f := finder{client: client, isOwnLease: func(namespace, _ string) bool { return namespace == "ours" }}
	found, err := f.leaseHolders(t.Context())
	if err != nil || len(found) != 1 || !strings.HasPrefix(found[0].name, "b, ") {
		t.Errorf("%+v, %v", found, err)
	}
}
