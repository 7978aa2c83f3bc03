package register

// The desired configurations are not visible outside the package before they are
// written, so these tests are in the package.

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/yaml"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/admission"
	"github.com/setpoint-dev/setpoint/internal/must"
)

func pods(operations ...hook.Operation) []admission.Rule {
	return []admission.Rule{{Version: "v1", Resources: []string{"pods"}, Operations: operations}}
}

func inService() Registration {
	return Registration{Address: Address{Service: ServiceRef{Namespace: "ops", Name: "setpoint"}}, Namespace: "ops", Group: "setpoint"}
}

func TestConfigurations(t *testing.T) {
	onLoopback := Registration{Address: Address{URL: "https://127.0.0.1:9443/"}, Namespace: "default", Group: "watchers"}
	for name, c := range map[string]struct {
		registration Registration
		program      admission.Program
	}{
		"both": {inService(), admission.Program{
			Name: "admissioncontroller/image-policy", Configuration: "setpoint-image-policy",
			Owner: &metav1.OwnerReference{APIVersion: "setpoint.dev/v1alpha1", Kind: "AdmissionController", Name: "image-policy", UID: "uid-1"},
			Webhooks: []admission.Webhook{
				{
					Name: "label", Mutates: true, Rules: pods(hook.OperationCreate), Ignore: true, Reinvoke: true, Timeout: 3 * time.Second,
					Objects: &metav1.LabelSelector{MatchLabels: map[string]string{"inject": "yes"}},
				},
				{
					Name: "tags", Rules: pods(hook.OperationCreate, hook.OperationUpdate), Timeout: 10 * time.Second,
					ExemptNamespaces: []string{"ops", "kube-system", "ops"},
					Namespaces:       &metav1.LabelSelector{MatchLabels: map[string]string{"team": "web"}},
					Conditions:       []admissionv1.MatchCondition{{Name: "not-the-node", Expression: `!("system:nodes" in request.userInfo.groups)`}},
				},
				{Name: "status", Rules: []admission.Rule{{Group: "apps", Version: "v1", Resources: []string{"deployments", "deployments/status"}, Operations: []hook.Operation{hook.OperationUpdate}}}},
			},
		}},
		"mutating":   {onLoopback, admission.Program{Name: "watchers", Configuration: "watchers", Webhooks: []admission.Webhook{{Name: "inject", Mutates: true, Rules: pods(hook.OperationCreate)}}}},
		"validating": {onLoopback, admission.Program{Name: "watchers", Configuration: "watchers.setpoint.dev", Webhooks: []admission.Webhook{{Name: "check", Rules: pods(hook.OperationDelete)}}}},
		"none":       {onLoopback, admission.Program{Name: "watchers", Configuration: "watchers"}},
	} {
		t.Run(name, func(t *testing.T) {
			var got string
			for _, one := range c.registration.configurations(&c.program, []byte("bundle")) {
				if one.Kind == validatingResource.Kind {
					got += "---\n"
				}
				got += written(t, one)
			}
			golden(t, filepath.Join("testdata", name+".yaml"), got)
		})
	}
}

func written(t *testing.T, o any) string {
	t.Helper()
	text := must.Get(yaml.Marshal(o)).In(t)
	return string(text)
}

// golden compares with a file; it is written anew when SETPOINT_UPDATE is set.
func golden(t *testing.T, path, got string) {
	t.Helper()
	if os.Getenv("SETPOINT_UPDATE") != "" {
		must.Succeed(t, os.WriteFile(path, []byte(got), 0o600))
	}
	want, err := os.ReadFile(path)
	if err != nil || string(want) != got {
		t.Errorf("%s (%v) differs from\n%s", path, err, got)
	}
}

// Whatever things are called, the API server takes the names made of them.
func TestNames(t *testing.T) {
	for _, configuration := range []string{"a", "a.b.c", "setpoint-image-policy", "x.setpoint.dev", strings.Repeat("long.", 50) + "end", strings.Repeat("x", 100)} {
		p := &admission.Program{Name: "AdmissionController/Ä", Configuration: configuration}
		name := fullName("tags", p)
		if faults := validation.IsFullyQualifiedName(nil, name); len(faults) > 0 {
			t.Errorf("%s: %v", name, faults)
		}
		for _, path := range []string{p.AdmitPath("tags"), p.ProbePath()} {
			for step := range strings.SplitSeq(path[1:], "/") {
				if faults := validation.IsDNS1123Subdomain(step); len(faults) > 0 {
					t.Errorf("%s: %v", path, faults)
				}
			}
		}
		if faults := validation.IsValidLabelValue(probeValue(p)); len(faults) > 0 {
			t.Errorf("%s: %v", probeValue(p), faults)
		}
	}
	for name, want := range map[string]string{"image-policy": "image-policy", "Kind/näme": "kind-n-me-", "_": ""} {
		if got := admission.PathSegment(name); !strings.HasPrefix(got, want) || len(validation.IsDNS1123Subdomain(got)) > 0 {
			t.Errorf("%s becomes %s", name, got)
		}
	}
	if admission.PathSegment("a/b") == admission.PathSegment("a-b") || admission.PathSegment("a/b") == admission.PathSegment("a_b") {
		t.Error("two names become one")
	}
}

func TestAddressNames(t *testing.T) {
	for _, c := range []struct {
		address Address
		want    []string
	}{
		{inService().Address, []string{"setpoint.ops.svc", "setpoint.ops.svc.cluster.local", "setpoint.ops"}},
		{Address{URL: "https://127.0.0.1:9443"}, []string{"localhost", "127.0.0.1", "::1"}},
		{Address{URL: "https://[fd00::1]:9443/base"}, []string{"localhost", "127.0.0.1", "::1", "fd00::1"}},
		{Address{URL: "https://hooks.example.org"}, []string{"localhost", "127.0.0.1", "::1", "hooks.example.org"}},
	} {
		if got := c.address.Names(); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v", c.address, got)
		}
	}
}

// What the API server says is shortened to what a user does not know.
func TestProbeError(t *testing.T) {
	const failed = `Internal error occurred: failed calling webhook "probe.self.a.setpoint.dev": `
	for _, c := range []struct {
		says, want string
		unreached  bool
	}{
		{failed + `failed to call webhook: Post "https://setpoint.ops.svc:443/probe/a?timeout=5s": dial tcp 10.0.0.7:443: connect: connection refused`, "dial tcp 10.0.0.7:443: connect: connection refused", true},
		{failed + `failed to call webhook: Post "https://setpoint.ops.svc:443/probe/a?timeout=5s": service "setpoint" not found`, `service "setpoint" not found`, true},
		{failed + `failed to call webhook: Post "https://127.0.0.1:9443/probe/a?timeout=5s": read tcp 127.0.0.1:51234->127.0.0.1:9443: read: connection reset by peer`, "read 127.0.0.1:9443: read: connection reset by peer", true},
		{failed + `failed to call webhook: Post "https://a/b": tls: failed to verify certificate: x509: certificate has expired or is not yet valid: current time 2026-11-21T17:40:01Z is after 2026-11-20T00:00:00Z`, "tls: failed to verify certificate: x509: certificate has expired or is not yet valid: after 2026-11-20T00:00:00Z", true},
		{failed + `failed to call webhook: the server could not find the requested resource`, "the server could not find the requested resource", true},
		{`Internal error occurred: failed calling webhook "theirs.example.org": failed to call webhook: no`, "", false},
		{`leases.coordination.k8s.io is forbidden: User "x" cannot create resource "leases"`, "", false},
	} {
		err := probeError(errors.New(c.says), "probe.self.a.setpoint.dev")
		if c.want == "" {
			c.want = c.says
		}
		if err.Error() != c.want || isUnreachable(err) != c.unreached {
			t.Errorf("%s\nbecomes %v (%t)", c.says, err, isUnreachable(err))
		}
	}
}
