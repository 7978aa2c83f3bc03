package host

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/setpoint-dev/setpoint/internal/compile"
)

// shelf is a server of a few objects, which knows lists in pages, reads, and
// patches of finalizers. Between a read and the patch that follows, somebody else
// may come.
type shelf struct {
	mu      sync.Mutex
	served  string
	objects map[string][]string
	// meanwhile is done to an object before its first patch, by name.
	meanwhile map[string]func(s *shelf)
	patches   int
}

const ours = "setpoint.dev/ours"

func (s *shelf) metadata(name string) map[string]any {
	return map[string]any{"metadata": map[string]any{"name": name, "uid": "uid-" + name, "finalizers": s.objects[name]}}
}

func (s *shelf) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	name := strings.Trim(strings.TrimPrefix(r.URL.Path, s.served), "/")
	_, there := s.objects[name]
	switch {
	case r.URL.Path == "/apis/example.org":
		_ = json.NewEncoder(w).Encode(map[string]any{"versions": []any{map[string]any{"groupVersion": "example.org/v2"}}})
	case r.URL.Path == "/apis/example.org/v2":
		_ = json.NewEncoder(w).Encode(map[string]any{"resources": []any{map[string]any{"name": "shops"}}})
	case !strings.HasPrefix(r.URL.Path, s.served), name != "" && !there:
		s.refuse(w, http.StatusNotFound, "NotFound")
	case name == "":
		s.list(w, r.URL.Query().Get("continue"))
	case r.Method == http.MethodPatch:
		s.patch(w, r, name)
	default:
		_ = json.NewEncoder(w).Encode(s.metadata(name))
	}
}

func (s *shelf) refuse(w http.ResponseWriter, code int, reason string) {
	w.WriteHeader(code)
	fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":%q,"code":%d,"message":"no"}`, reason, code)
}

// list answers one object a page.
func (s *shelf) list(w http.ResponseWriter, from string) {
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

func (s *shelf) patch(w http.ResponseWriter, r *http.Request, name string) {
	if first := s.meanwhile[name]; first != nil {
		delete(s.meanwhile, name)
		first(s)
	}
	s.patches++
	var edits []struct {
		Op, Path string
		Value    string
	}
	if json.NewDecoder(r.Body).Decode(&edits) != nil || len(edits) != 3 {
		s.refuse(w, http.StatusBadRequest, "BadRequest")
		return
	}
	var place int
	if _, err := fmt.Sscanf(edits[2].Path, "/metadata/finalizers/%d", &place); err != nil {
		s.refuse(w, http.StatusBadRequest, "BadRequest")
		return
	}
	finalizers, there := s.objects[name]
	switch {
	case !there:
		s.refuse(w, http.StatusNotFound, "NotFound")
	case place >= len(finalizers) || finalizers[place] != edits[1].Value:
		s.refuse(w, http.StatusUnprocessableEntity, "Invalid")
	default:
		s.objects[name] = slices.Delete(finalizers, place, place+1)
		_ = json.NewEncoder(w).Encode(s.metadata(name))
	}
}

func hostAt(t *testing.T, handler http.Handler) *Host {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	client, err := clientFor(Options{Config: &rest.Config{Host: server.URL}})
	if err != nil {
		t.Fatal(err)
	}
	return &Host{client: client, log: slog.New(slog.DiscardHandler)}
}

func TestRemoveFinalizer(t *testing.T) {
	s := &shelf{
		served: "/apis/example.org/v2/shops",
		objects: map[string][]string{
			"alone": {ours}, "among others": {"a", ours, "b"}, "without": {"a"}, "edited": {"a", ours}, "released": {ours}, "deleted": {ours},
		},
		meanwhile: map[string]func(*shelf){
			"edited":   func(s *shelf) { s.objects["edited"] = []string{ours, "c"} },
			"released": func(s *shelf) { s.objects["released"] = []string{} },
			"deleted":  func(s *shelf) { delete(s.objects, "deleted") },
		},
	}
	// The kind was noted in a version that is not served any more.
	err := hostAt(t, s).removeFinalizer(t.Context(), compile.Named{APIVersion: "example.org/v1", Plural: "shops"}, ours)
	if err != nil {
		t.Fatal(err)
	}
	want := "map[alone:[] among others:[a b] edited:[c] released:[] without:[a]]"
	if got := fmt.Sprint(s.objects); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestAKindThatIsNotServedHasNoFinalizers(t *testing.T) {
	s := &shelf{served: "/apis/example.org/v2/shops"}
	for _, name := range []compile.Named{
		{APIVersion: "example.org/v1", Plural: "gone"}, {APIVersion: "gone.example.org/v1", Plural: "shops"}, {APIVersion: "v1", Plural: "gone"},
	} {
		if err := hostAt(t, s).removeFinalizer(t.Context(), name, ours); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// One that cannot be written is tried a few times and then told; the others are
// released.
func TestWhatCannotBeReleasedIsTold(t *testing.T) {
	s := &shelf{served: "/apis/example.org/v2/shops", objects: map[string][]string{"a": {ours}}, meanwhile: map[string]func(*shelf){}}
	var stubborn func(*shelf)
	stubborn = func(s *shelf) {
		s.objects["a"] = append([]string{"x"}, s.objects["a"]...)
		s.meanwhile["a"] = stubborn
	}
	s.meanwhile["a"] = stubborn
	err := hostAt(t, s).removeFinalizer(t.Context(), compile.Named{APIVersion: "example.org/v2", Plural: "shops"}, ours)
	if err == nil || !strings.Contains(err.Error(), "/a: ") || s.patches != releaseTries {
		t.Errorf("%d patches, error %v", s.patches, err)
	}
}
