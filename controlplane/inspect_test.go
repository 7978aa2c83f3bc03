package controlplane_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"k8s.io/cri-streaming/pkg/streaming/portforward"

	"github.com/setpoint-dev/setpoint/controlplane"
	"github.com/setpoint-dev/setpoint/controlplane/internal/proctest"
	"github.com/setpoint-dev/setpoint/internal/inspect/wire"
	"github.com/setpoint-dev/setpoint/internal/must"
)

// The CLI finds a process in a pod by its Lease and reads it by a port-forward, which
// the API server authorizes. There is no kubelet here: a fake one, made of the real
// code, only forwards ports.
func TestInspectProcessInPod(t *testing.T) {
	t.Parallel()
	c := start(t, controlplane.Options{})
	kubelet := serveKubelet(t)
	c.kubectl("create", "namespace", "shop")
	c.await("create", "serviceaccount/default", "-n", "shop") // No pod is let in before.
	c.apply(podsOfSetpoint)
	c.await("create", "pod/setpoint-0", "-n", "shop")
	c.kubectl("patch", "node", "here", "--subresource=status", "-p", fmt.Sprintf(
		`{"status": {"addresses": [{"type": "InternalIP", "address": "127.0.0.1"}], "daemonEndpoints": {"kubeletEndpoint": {"Port": %d}}}}`, kubelet.port))
	c.runSetpoint(t, "setpoint-0", podAddresses["setpoint-0"]+":0")

	proctest.Eventually(t, waitTimeout, func() error {
		place := c.kubectl("get", "lease", "-n", "shop", "-o", `jsonpath={.items[*].metadata.annotations.setpoint\.dev/inspect}`)
		if !strings.HasPrefix(place, "shop/setpoint-0:") {
			return fmt.Errorf("the lease leads to %q", place)
		}
		return nil
	})
	proctest.Eventually(t, waitTimeout, func() error { // Its kind is served a moment later.
		_, err := c.tryKubectlWithInput(emptyController, "apply", "-f", "-")
		return err
	})

	may, mayNot, unread := c.user("may"), c.user("may-not"), c.user("unread")
	proctest.Eventually(t, waitTimeout, func() error {
		out, err := setpoint(may, "get", "-N", "shop")
		if err != nil || !strings.Contains(out, "1 controller is hidden") || strings.Contains(out, "idle") {
			return fmt.Errorf("who may forward ports, and nothing else: %w\n%s", err, out)
		}
		return nil
	})
	c.apply(readControllersRole)
	proctest.Eventually(t, waitTimeout, func() error {
		out, err := setpoint(may, "get", "-N", "shop")
		if err != nil || !strings.Contains(out, "compositecontroller.metacontroller.k8s.io/idle") {
			return fmt.Errorf("who may forward ports: %w\n%s", err, out)
		}
		return nil
	})
	if _, read := kubelet.forwarded.Load("setpoint-0"); !read {
		t.Error("nothing was forwarded")
	}
	c.attackInspection(t, may)
	for name, test := range map[string]struct {
		user, want string
		args       []string
	}{
		"may forward ports, and not get the Secret": {unread, "get the Secret shop/setpoint-inspect with the token of the inspect endpoint: secrets", []string{"-N", "shop"}},
		"asks at another port":                      {may, "connection refused", []string{"--pod", "shop/setpoint-0:1"}},
		"may not":                                   {mayNot, "cannot create resource \"pods/portforward\"", []string{"-N", "shop"}},
		"may not list":                              {mayNot, "cannot list resource \"leases\"", []string{"-N", "default"}},
	} {
		if out, err := setpoint(test.user, append([]string{"get"}, test.args...)...); err == nil || !strings.Contains(out, test.want) {
			t.Errorf("who %s: %v\n%s", name, err, out)
		}
	}
	c.readReplicas(t, may, kubelet)
}

// inspectPort is the port of the inspect endpoint, as the Lease has it.
func (c cluster) inspectPort() string {
	place := c.kubectl("get", "lease", "-n", "shop", "-o", `jsonpath={.items[*].metadata.annotations.setpoint\.dev/inspect}`)
	_, port, _ := strings.Cut(place, ":")
	return port
}

// readReplicas reads reviews, which each replica serves, with and without the right to find the pods.
func (c cluster) readReplicas(t *testing.T, may string, kubelet *kubelet) {
	t.Helper()
	c.runSetpoint(t, "setpoint-1", podAddresses["setpoint-1"]+":"+c.inspectPort())
	c.kubectl("patch", "pod", "setpoint-0", "-n", "shop", "--subresource=status", "-p", `{"status": {"phase": "Running"}}`)
	c.await("create", "pod/setpoint-1", "-n", "shop")
	c.kubectl("patch", "pod", "setpoint-1", "-n", "shop", "--subresource=status", "-p", `{"status": {"phase": "Running"}}`)
	out, err := setpoint(may, "get", "reviews", "-N", "shop")
	if err != nil || !strings.Contains(out, `warning: what other replicas have served is missing: read pod shop/setpoint-0: pods "setpoint-0" is forbidden`) {
		t.Errorf("who may not get pods: %v\n%s", err, out)
	}
	c.apply(findReplicasRole)
	proctest.Eventually(t, waitTimeout, func() error {
		out, err := setpoint(may, "get", "reviews", "-N", "shop", "--process", "setpoint-1")
		if err != nil || strings.Contains(out, "warning") {
			return fmt.Errorf("who may find the replicas: %w\n%s", err, out)
		}
		return nil
	})
	if _, read := kubelet.forwarded.Load("setpoint-1"); !read {
		t.Error("the other replica was not read")
	}
}

// attackInspection asks at the port itself, as another container of the pod could, or who
// forwards it. Fault S10: there was no token.
func (c cluster) attackInspection(t *testing.T, may string) {
	t.Helper()
	port := c.inspectPort()
	call := func(token string) int {
		r := must.Get(http.NewRequestWithContext(t.Context(), http.MethodPost, "http://127.0.0.1:"+port+wire.Prefix+"controllers", http.NoBody)).In(t)
		r.Header.Set("Authorization", "Bearer "+token)
		response := must.Get(http.DefaultClient.Do(r)).In(t)
		_ = response.Body.Close()
		return response.StatusCode
	}
	token := func() string {
		text := must.Get(base64.StdEncoding.DecodeString(c.kubectl("get", "secret", "setpoint-inspect", "-n", "shop", "-o", "jsonpath={.data.token}"))).In(t)
		return string(text)
	}
	before := token()
	for name, given := range map[string]string{"none": "", "a guess": "guess", "that of a user": c.kubectl("create", "token", "may", "-n", "shop")} {
		if status := call(given); status != http.StatusUnauthorized {
			t.Errorf("with the token %s: status %d", name, status)
		}
	}
	if status := call(before); status != http.StatusOK {
		t.Errorf("with the token: status %d", status)
	}
	// Rotated: at once for users, and the old one ends.
	c.kubectl("delete", "secret", "setpoint-inspect", "-n", "shop")
	if out, err := setpoint(may, "get", "-N", "shop"); err != nil || !strings.Contains(out, "compositecontroller.metacontroller.k8s.io/idle") {
		t.Errorf("after the rotation: %v\n%s", err, out)
	}
	if token() == before {
		t.Error("the token is the same after the rotation")
	}
	if status := call(before); status != http.StatusUnauthorized {
		t.Errorf("with the token before the rotation: status %d", status)
	}
}

// podsOfSetpoint are pods on a node that kwok leaves alone.
const podsOfSetpoint = `
{apiVersion: v1, kind: Node, metadata: {name: here}}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: setpoint, namespace: shop}
spec:
  replicas: 2
  podManagementPolicy: Parallel
  serviceName: setpoint
  selector: {matchLabels: {app: setpoint}}
  template:
    metadata: {labels: {app: setpoint}}
    spec: {nodeName: here, automountServiceAccountToken: false, containers: [{name: main, image: setpoint}]}
---
{apiVersion: v1, kind: ServiceAccount, metadata: {name: may, namespace: shop}}
---
{apiVersion: v1, kind: ServiceAccount, metadata: {name: may-not, namespace: shop}}
---
{apiVersion: v1, kind: ServiceAccount, metadata: {name: unread, namespace: shop}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: find, namespace: shop}
rules: [{apiGroups: [coordination.k8s.io], resources: [leases], verbs: [list]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: inspect, namespace: shop}
rules: [{apiGroups: [""], resources: [pods/portforward], verbs: [get, create]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: token, namespace: shop}
rules: [{apiGroups: [""], resources: [secrets], resourceNames: [setpoint-inspect], verbs: [get]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: find, namespace: shop}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: find}
subjects: [{kind: ServiceAccount, name: may}, {kind: ServiceAccount, name: may-not}, {kind: ServiceAccount, name: unread}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: inspect, namespace: shop}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: inspect}
subjects: [{kind: ServiceAccount, name: may}, {kind: ServiceAccount, name: unread}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: token, namespace: shop}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: token}
subjects: [{kind: ServiceAccount, name: may}, {kind: ServiceAccount, name: may-not}]
`

// readControllersRole lets one who may forward ports see which controllers there are.
const readControllersRole = `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: see-controllers}
rules: [{apiGroups: [metacontroller.k8s.io], resources: [compositecontrollers], verbs: [get]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: see-controllers}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: see-controllers}
subjects: [{kind: ServiceAccount, name: may, namespace: shop}]
`

// findReplicasRole lets one who may forward ports find the pods of all replicas.
const findReplicasRole = `
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: find-replicas, namespace: shop}
rules: [{apiGroups: [""], resources: [pods], verbs: [get, list]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: find-replicas, namespace: shop}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: find-replicas}
subjects: [{kind: ServiceAccount, name: may, namespace: shop}]
`

// emptyController is a controller without parents, so it never calls its hook.
const emptyController = `
apiVersion: metacontroller.k8s.io/v1alpha1
kind: CompositeController
metadata: {name: idle}
spec:
  generateSelector: true
  parentResource: {apiVersion: batch/v1, resource: cronjobs}
  childResources: [{apiVersion: v1, resource: configmaps}]
  hooks: {sync: {webhook: {url: "http://127.0.0.1:1"}}}
`

// runSetpoint runs the program as if it were in a pod, until the test ends.
func (c cluster) runSetpoint(t *testing.T, pod, inspectAddress string) {
	t.Helper()
	run := exec.CommandContext(t.Context(), os.Getenv(binaryVariable), "run", "--kubeconfig", c.Kubeconfig(), "--leader-elect",
		"--address=", "--inspect-address="+inspectAddress, "--namespace=shop")
	run.Env = append(os.Environ(), "POD_NAMESPACE=shop", "POD_NAME="+pod)
	var log bytes.Buffer
	run.Stderr = &log
	run.Cancel = func() error { return run.Process.Signal(syscall.SIGTERM) }
	must.Succeed(t, run.Start())
	t.Cleanup(func() {
		if err := run.Wait(); err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("setpoint run: %v\n%s", err, log.String())
		}
	})
}

// user is a kubeconfig of a service account in namespace shop.
func (c cluster) user(name string) (kubeconfig string) {
	c.t.Helper()
	text := must.Get(os.ReadFile(c.Kubeconfig())).In(c.t)
	kubeconfig = filepath.Join(c.t.TempDir(), "kubeconfig")
	must.Succeed(c.t, os.WriteFile(kubeconfig, text, 0o600))
	token := c.kubectl("create", "token", name, "-n", "shop")
	c.kubectl("config", "--kubeconfig", kubeconfig, "set-credentials", name, "--token", token)
	c.kubectl("config", "--kubeconfig", kubeconfig, "set-context", "--current", "--user", name)
	return kubeconfig
}

// setpoint runs a command as who a kubeconfig says.
func setpoint(kubeconfig string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), waitTimeout)
	defer cancel()
	command := exec.CommandContext(ctx, os.Getenv(binaryVariable), args...)
	command.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig)
	out, err := command.CombinedOutput()
	return string(out), err
}

// podAddresses are the addresses of pods, all of which are this machine.
var podAddresses = map[string]string{"setpoint-0": "127.0.0.1", "setpoint-1": "127.0.0.2"}

// kubelet forwards ports of its pods.
type kubelet struct {
	port int
	// forwarded are the pods whose ports were forwarded.
	forwarded sync.Map
}

func serveKubelet(t *testing.T) *kubelet {
	t.Helper()
	k := &kubelet{}
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		pod, inShop := strings.CutPrefix(r.URL.Path, "/portForward/shop/")
		if !inShop || podAddresses[pod] == "" {
			http.NotFound(w, r)
			return
		}
		portforward.ServePortForward(w, r, k, pod, "", &portforward.V4Options{}, waitTimeout, waitTimeout, portforward.SupportedProtocols)
	}))
	t.Cleanup(server.Close)
	_, port, err := net.SplitHostPort(server.Listener.Addr().String())
	must.Succeed(t, err)
	k.port = must.Get(strconv.Atoi(port)).In(t)
	return k
}

// PortForward connects a stream with a port.
func (k *kubelet) PortForward(ctx context.Context, pod, _ string, port int32, stream io.ReadWriteCloser) error {
	var dialer net.Dialer
	to, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort(podAddresses[pod], strconv.Itoa(int(port))))
	if err != nil {
		return err
	}
	k.forwarded.Store(pod, true)
	defer func() { _ = to.Close() }()
	ended := make(chan error, 2)
	go func() { _, err := io.Copy(to, stream); ended <- err }()
	go func() { _, err := io.Copy(stream, to); ended <- err }()
	select {
	case err = <-ended:
	case <-time.After(waitTimeout):
		err = errors.New("too long")
	}
	return err
}
