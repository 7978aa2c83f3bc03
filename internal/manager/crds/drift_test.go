package crds

import (
	"fmt"
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/must"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// Fault M1: a change of a CRD is corrected once per manager; a repeated change is reported.
func TestChangedCRDsAreAppliedAgainOnce(t *testing.T) {
	helm, ours, flux := observed{manager: "helm"}, observed{manager: "helm", current: true}, observed{manager: "flux"}
	o := must.Get(object.Parse([]byte(`{"metadata":{"name":"crd"}}`))).In(t)
	for _, c := range []struct {
		name string
		skip bool
		seen []observed
		want string
	}{
		{"unchanged", false, []observed{ours}, "CRDCurrent"},
		{"changed", false, []observed{helm, ours}, "correct CRDCurrent"},
		{"changed back", false, []observed{helm, ours, helm}, `correct CRDCurrent CRDChangedBack "helm"`},
		{"and again", false, []observed{helm, ours, helm, helm}, `correct CRDCurrent CRDChangedBack "helm" CRDChangedBack "helm"`},
		{"by another", false, []observed{helm, ours, flux, ours, flux}, `correct CRDCurrent correct CRDCurrent CRDChangedBack "flux"`},
		{"given up by others", false, []observed{helm, helm, ours}, `correct CRDChangedBack "helm" CRDCurrent`},
		{"skipped", true, []observed{helm, helm, ours}, `CRDSkipped "helm" CRDSkipped "helm" CRDCurrent`},
	} {
		t.Run(c.name, func(t *testing.T) {
			u := drift{manifest: Manifest{Object: o}, skip: c.skip, corrected: map[string]bool{}}
			var got []string
			for _, now := range c.seen {
				correct, problem := u.decide(now)
				switch {
				case correct:
					u.corrected[now.manager] = true
					got = append(got, "correct")
				case problem == nil:
					got = append(got, "CRDCurrent")
				default:
					if !strings.Contains(problem.Error(), "crd") {
						t.Errorf("does not name the CRD: %v", problem)
					}
					got = append(got, failure.Reason(problem, ""), fmt.Sprintf("%q", inQuotes(problem.Error(), "helm", "flux")))
				}
			}
			if text := strings.Join(got, " "); text != c.want {
				t.Errorf("got %s, want %s", text, c.want)
			}
		})
	}
}

// inQuotes returns the first of the names that a message quotes.
func inQuotes(message string, names ...string) string {
	for _, name := range names {
		if strings.Contains(message, fmt.Sprintf("%q", name)) {
			return name
		}
	}
	return ""
}
