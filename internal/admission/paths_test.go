package admission

import (
	"net/http"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation"
)

// Faults S2 and S5: without the path of a registration no hook is called.
func TestPathsAreUnguessable(t *testing.T) {
	const key, another = PathKey("one key"), PathKey("another key")
	path := key.addToken("/admit/web/check")
	if token := path[strings.LastIndex(path, "/")+1:]; len(token) < 32 || len(validation.IsDNS1123Label(token)) > 0 {
		t.Errorf("the token %q can be guessed, or the API server does not take it", token)
	}
	if one, two := newPathKey(), newPathKey(); one == two || len(one) < 26 {
		t.Error("keys can be guessed")
	}
	probe := PathKey("one key").addToken("/probe/web")
	for at, want := range map[string]int{
		path: http.StatusOK, probe: http.StatusOK,
		"/admit/web/check": http.StatusNotFound, "/probe/web": http.StatusNotFound,
		another.addToken("/admit/web/check"):                        http.StatusNotFound,
		key.addToken("/admit/other/check"):                          http.StatusNotFound,
		"/probe/web" + strings.TrimPrefix(path, "/admit/web/check"): http.StatusNotFound,
		path + "/":    http.StatusNotFound,
		path[:40]:     http.StatusNotFound,
		"/":           http.StatusNotFound,
		"":            http.StatusNotFound,
		"/admit/web/": http.StatusNotFound,
	} {
		s := NewServer(ServerOptions{PathKeys: func() PathKeys { return PathKeys{Key: key} }})
		s.Set([]*Program{programOf(allow)})
		if w := post(s, "http://setpoint"+at, reviewOf(`"operation":"DELETE"`)); w.Code != want {
			t.Errorf("%s: %d, %s", at, w.Code, w.Body)
		}
	}
}

// A Secret from a release without keys: the server accepts its paths until the keys are known.
func TestPathsBeforeThereWereKeys(t *testing.T) {
	current := &keyring{}
	k := NewCertificateManager(CertificateManagerOptions{})
	k.keyring = current
	if plain, ours := k.PathKeys().stripToken("/admit/web/check"); !ours || plain != "/admit/web/check" {
		t.Errorf("without a key: %q, %v", plain, ours)
	}
	k.keyring = k.mergePathKey(&keyring{pathKey: "key"})
	for _, path := range []string{"/admit/web/check", PathKey("key").addToken("/admit/web/check")} {
		if plain, ours := k.PathKeys().stripToken(path); !ours || plain != "/admit/web/check" {
			t.Errorf("%s: %q, %v", path, plain, ours)
		}
	}
}
