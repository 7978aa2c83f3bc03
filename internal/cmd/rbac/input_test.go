package rbac

import (
	"github.com/setpoint-dev/setpoint/internal/must"
	"os"
	"path/filepath"
	"testing"
)

// Errors of --extra-rules name the file and the field, and what is allowed.
func TestExtraRules(t *testing.T) {
	const role = "apiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nmetadata: {name: a}\n"
	for _, test := range []struct{ text, want string }{
		{"- {apiGroups: [''], resources: [pods], verbs: [get]}", ""},
		{role + "rules:\n- {apiGroups: [''], resources: [pods], verbs: [get]}", ""},
		{"- {apiGroups: [''], resources: [pods], verb: [get]}", `FILE: strict decoding error: unknown field "rules[0].verb"; ` + ruleFields},
		{"- {apiGroups: [''], resources: [pods], verbs: get}", "FILE: rules.verbs: cannot be a JSON string; " + ruleFields},
		{"- {apiGroups: [''], resources: [pods]}", "FILE: rules[0].verbs: required"},
		{role + "rules:\n- {verbs: [get], ressources: [pods]}", `FILE: document 1 (line 1): strict decoding error: unknown field "rules[0].ressources"; ` + ruleFields},
		{"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}", "FILE: document 1 (line 1): ConfigMap is no Role or ClusterRole of rbac.authorization.k8s.io/v1"},
		{"apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: a}", "FILE: document 1 (line 1): Widget is no Role or ClusterRole of rbac.authorization.k8s.io/v1"},
	} {
		t.Chdir(t.TempDir())
		must.Succeed(t, os.WriteFile("FILE", []byte(test.text), 0o600))
		_, err := readRules([]string{filepath.Clean("FILE")})
		if got := errorText(err); got != test.want {
			t.Errorf("%s\n got %s\nwant %s", test.text, got, test.want)
		}
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
