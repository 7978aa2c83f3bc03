package cli

import (
	"bytes"
	"net/http"
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/dashboard/discovery"
)

func TestSupportBundleFlags(t *testing.T) {
	cluster(t, http.HandlerFunc(apiServer))
	t.Setenv(discovery.FolderEnv, t.TempDir())
	t.Chdir(t.TempDir())
	for args, want := range map[string]string{
		"--max-size 100E": "error: --max-size must be at least 1Mi and less than 2Gi, such as 100Mi, not 100E\n",
		"--max-size -1":   "error: --max-size must be at least 1Mi and less than 2Gi, such as 100Mi, not -1\n",
		"--max-size 1Ki":  "error: --max-size must be at least 1Mi and less than 2Gi, such as 100Mi, not 1Ki\n",
		"--max-size some": "error: --max-size must be at least 1Mi and less than 2Gi, such as 100Mi, not some\n",
	} {
		var out, problems bytes.Buffer
		p := &program{stdout: &out, stderr: &problems, stdin: strings.NewReader("")}
		if code := p.execute(t.Context(), append([]string{"support-bundle"}, strings.Fields(args)...)); code != codeUsage || !strings.Contains(problems.String(), want) {
			t.Errorf("%s: %d\n%s%s", args, code, &out, &problems)
		}
	}
}
