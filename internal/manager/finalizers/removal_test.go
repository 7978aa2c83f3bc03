package finalizers

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"

	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/identity"
	"github.com/setpoint-dev/setpoint/internal/manager/kinds"
	"github.com/setpoint-dev/setpoint/internal/must"
)

// finalizerServer is an API server with a few objects. It supports lists in pages, reads and
// patches of finalizers, and can change an object between a read and the next patch.
type finalizerServer struct {
	mu      sync.Mutex
	served  string
	objects map[string][]string
	// beforePatch changes an object before its first patch, by name.
	beforePatch map[string]func(s *finalizerServer)
	patches     int
	// onlyAs forbids patches as another user, if it is set.
	onlyAs string
}

const testFinalizer = "setpoint.dev/ours"

func (s *finalizerServer) metadata(name string) map[string]any {
	return map[string]any{"metadata": map[string]any{"name": name, "uid": "uid-" + name, "finalizers": s.objects[name]}}
}

func (s *finalizerServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	name := strings.Trim(strings.TrimPrefix(r.URL.Path, s.served), "/")
	_, exists := s.objects[name]
	switch {
	case r.URL.Path == "/apis/example.org":
		_ = json.NewEncoder(w).Encode(map[string]any{"versions": []any{map[string]any{"groupVersion": "example.org/v2"}}})
	case r.URL.Path == "/apis/example.org/v2":
		_ = json.NewEncoder(w).Encode(map[string]any{"resources": []any{map[string]any{"name": "shops"}}})
	case r.URL.Path == "/api/v1/namespaces/web/serviceaccounts/worker":
		_ = json.NewEncoder(w).Encode(map[string]any{})
	case !strings.HasPrefix(r.URL.Path, s.served), name != "" && !exists:
		s.writeStatus(w, http.StatusNotFound, "NotFound")
	case name == "":
		s.list(w, r.URL.Query().Get("continue"))
	case r.Method == http.MethodPatch && s.onlyAs != "" && r.Header.Get("Impersonate-User") != s.onlyAs:
		s.writeStatus(w, http.StatusForbidden, "Forbidden")
	case r.Method == http.MethodPatch:
		s.patch(w, r, name)
	default:
		_ = json.NewEncoder(w).Encode(s.metadata(name))
	}
}

func (s *finalizerServer) writeStatus(w http.ResponseWriter, code int, reason string) {
	w.WriteHeader(code)
	fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":%q,"code":%d,"message":"no"}`, reason, code)
}

// list writes pages of one object.
func (s *finalizerServer) list(w http.ResponseWriter, from string) {
	names := []string{}
	for name := range s.objects {
		names = append(names, name)
	}
	slices.Sort(names)
	i, _ := slices.BinarySearch(names, from)
	next := ""
	if i+1 < len(names) {
		next = names[i+1]
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"metadata": map[string]any{"continue": next}, "items": []any{s.metadata(names[i])}})
}

func (s *finalizerServer) patch(w http.ResponseWriter, r *http.Request, name string) {
	if first := s.beforePatch[name]; first != nil {
		delete(s.beforePatch, name)
		first(s)
	}
	s.patches++
	var edits []struct {
		Op, Path string
		Value    string
	}
	if json.NewDecoder(r.Body).Decode(&edits) != nil || len(edits) != 3 {
		s.writeStatus(w, http.StatusBadRequest, "BadRequest")
		return
	}
	var index int
	if _, err := fmt.Sscanf(edits[2].Path, "/metadata/finalizers/%d", &index); err != nil {
		s.writeStatus(w, http.StatusBadRequest, "BadRequest")
		return
	}
	finalizers, exists := s.objects[name]
	switch {
	case !exists:
		s.writeStatus(w, http.StatusNotFound, "NotFound")
	case index >= len(finalizers) || finalizers[index] != edits[1].Value:
		s.writeStatus(w, http.StatusUnprocessableEntity, "Invalid")
	default:
		s.objects[name] = slices.Delete(finalizers, index, index+1)
		_ = json.NewEncoder(w).Encode(s.metadata(name))
	}
}

func clusterAt(t *testing.T, handler http.Handler) *Cluster {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	known := runtime.NewScheme()
	metav1.AddToGroupVersion(known, schema.GroupVersion{Version: "v1"}) // decodes Status
	client := must.Get(rest.UnversionedRESTClientFor(&rest.Config{Host: server.URL, APIPath: "/", QPS: -1, ContentConfig: rest.ContentConfig{
		GroupVersion: &schema.GroupVersion{}, NegotiatedSerializer: serializer.NewCodecFactory(known).WithoutConversion(),
	}})).In(t)
	return &Cluster{Client: client, Resolver: &kinds.Resolver{Client: client}, Access: identity.NewReviewer(client), FieldManager: "setpoint"}
}

func TestRemoveFinalizer(t *testing.T) {
	s := &finalizerServer{
		served: "/apis/example.org/v2/shops",
		objects: map[string][]string{
			"alone": {testFinalizer}, "among others": {"a", testFinalizer, "b"}, "without": {"a"}, "edited": {"a", testFinalizer}, "released": {testFinalizer}, "deleted": {testFinalizer},
		},
		beforePatch: map[string]func(*finalizerServer){
			"edited":   func(s *finalizerServer) { s.objects["edited"] = []string{testFinalizer, "c"} },
			"released": func(s *finalizerServer) { s.objects["released"] = []string{} },
			"deleted":  func(s *finalizerServer) { delete(s.objects, "deleted") },
		},
	}
	// The version is no longer served.
	must.Succeed(t, (&Removal{Cluster: clusterAt(t, s), Finalizer: testFinalizer}).RemoveFrom(t.Context(), compile.ResourceName{APIVersion: "example.org/v1", Plural: "shops"}))
	want := "map[alone:[] among others:[a b] edited:[c] released:[] without:[a]]"
	if got := fmt.Sprint(s.objects); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestKindThatIsNotServedHasNoFinalizers(t *testing.T) {
	s := &finalizerServer{served: "/apis/example.org/v2/shops"}
	for _, name := range []compile.ResourceName{
		{APIVersion: "example.org/v1", Plural: "gone"}, {APIVersion: "gone.example.org/v1", Plural: "shops"}, {APIVersion: "v1", Plural: "gone"},
	} {
		if err := (&Removal{Cluster: clusterAt(t, s), Finalizer: testFinalizer}).RemoveFrom(t.Context(), name); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A failing patch is retried a few times and then reported.
func TestFailedReleaseIsReported(t *testing.T) {
	s := &finalizerServer{served: "/apis/example.org/v2/shops", objects: map[string][]string{"a": {testFinalizer}}, beforePatch: map[string]func(*finalizerServer){}}
	var stubborn func(*finalizerServer)
	stubborn = func(s *finalizerServer) {
		s.objects["a"] = append([]string{"x"}, s.objects["a"]...)
		s.beforePatch["a"] = stubborn
	}
	s.beforePatch["a"] = stubborn
	err := (&Removal{Cluster: clusterAt(t, s), Finalizer: testFinalizer}).RemoveFrom(t.Context(), compile.ResourceName{APIVersion: "example.org/v2", Plural: "shops"})
	if err == nil || !strings.Contains(err.Error(), "/a: ") || s.patches != maxReleaseAttempts {
		t.Errorf("%d patches, error %v", s.patches, err)
	}
}

// A release needs no ServiceAccount: no hook is called any more. Where Setpoint's own rights do not suffice, it acts as
// the ServiceAccount, whose bindings outlive it: that of an account that is gone is no right.
func TestReleaseWithoutServiceAccount(t *testing.T) {
	for name, test := range map[string]struct {
		account    string
		onlyAs     string
		finalizers int
		err        error
	}{
		"Setpoint may, the account is gone":     {"gone", "", 0, nil},
		"Setpoint may not, the account may":     {"worker", "system:serviceaccount:web:worker", 0, nil},
		"Setpoint may not, the account is gone": {"gone", "system:serviceaccount:web:gone", 1, identity.ErrForbidden},
	} {
		t.Run(name, func(t *testing.T) {
			s := &finalizerServer{served: "/apis/example.org/v2/shops", objects: map[string][]string{"a": {testFinalizer}}, onlyAs: test.onlyAs}
			removal := Removal{Cluster: clusterAt(t, s), Finalizer: testFinalizer, Account: identity.Account{Namespace: "web", Name: test.account}}
			err := removal.RemoveFrom(t.Context(), compile.ResourceName{APIVersion: "example.org/v2", Plural: "shops"})
			if !errors.Is(err, test.err) || len(s.objects["a"]) != test.finalizers {
				t.Errorf("finalizers %v, error %v", s.objects["a"], err)
			}
		})
	}
}
