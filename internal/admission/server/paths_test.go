package server

import (
	"net/http"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/setpoint-dev/setpoint/internal/admission"
)

// Faults S2 and S5: without the path of a registration no hook is called.
func TestPathsAreUnguessable(t *testing.T) {
	const key, another = admission.PathKey("one key"), admission.PathKey("another key")
	path := key.AddToken("/admit/web/check")
	if token := path[strings.LastIndex(path, "/")+1:]; len(token) < 32 || len(validation.IsDNS1123Label(token)) > 0 {
		t.Errorf("the token %q can be guessed, or the API server does not take it", token)
	}
	if one, two := admission.NewPathKey(), admission.NewPathKey(); one == two || len(one) < 26 {
		t.Error("keys can be guessed")
	}
	probe := admission.PathKey("one key").AddToken("/probe/web")
	for at, want := range map[string]int{
		path: http.StatusOK, probe: http.StatusOK,
		"/admit/web/check": http.StatusNotFound, "/probe/web": http.StatusNotFound,
		another.AddToken("/admit/web/check"):                        http.StatusNotFound,
		key.AddToken("/admit/other/check"):                          http.StatusNotFound,
		"/probe/web" + strings.TrimPrefix(path, "/admit/web/check"): http.StatusNotFound,
		path + "/":    http.StatusNotFound,
		path[:40]:     http.StatusNotFound,
		"/":           http.StatusNotFound,
		"":            http.StatusNotFound,
		"/admit/web/": http.StatusNotFound,
	} {
		s := New(Options{PathKeys: func() admission.PathKeys { return admission.PathKeys{Key: key} }})
		s.Set([]*admission.Program{programOf(allow)})
		if w := post(s, "http://setpoint"+at, reviewOf(`"operation":"DELETE"`)); w.Code != want {
			t.Errorf("%s: %d, %s", at, w.Code, w.Body)
		}
	}
}
