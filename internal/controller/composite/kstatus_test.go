package composite

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Fault G9: parents did not report a failing hook. TestParentConditions writes the files, whose
// names begin with the expected status.
func TestKstatusOfParents(t *testing.T) {
	paths, err := filepath.Glob("testdata/kstatus/*.json")
	if err != nil || len(paths) < 4 {
		t.Fatalf("found %v, %v", paths, err)
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var parent unstructured.Unstructured
		if err := json.Unmarshal(text, &parent); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		want, _, _ := strings.Cut(filepath.Base(path), ".")
		result, err := status.Compute(&parent)
		if err != nil || result.Status.String() != want {
			t.Errorf("%s: kstatus says %+v, %v", path, result, err)
		}
		if want != status.CurrentStatus.String() && !strings.Contains(string(text), result.Message) {
			t.Errorf("%s: %q is not what the parent says", path, result.Message)
		}
	}
}
