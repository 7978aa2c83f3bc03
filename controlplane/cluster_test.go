package controlplane_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/controlplane"
	"github.com/setpoint-dev/setpoint/controlplane/internal/proctest"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// One throw-away cluster serves all these tests; the last ones treat it badly.
func TestCluster(t *testing.T) {
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	c := start(t, controlplane.Options{})

	for _, test := range []struct {
		name string
		run  func(cluster)
	}{
		{"boots", boots},
		{"pod runs", podRuns},
		{"finished pod stays finished", finishedPodStaysFinished},
		{"job completes", jobCompletes},
		{"deployment rolls out", deploymentRollsOut},
		{"garbage is collected", collectsGarbage},
		{"namespace goes with its content", deletesNamespaces},
		{"built-in kinds are known", knowsBuiltInKinds},
		{"lists come in shards", listsComeInShards},
		{"lists are not compressed", doesNotCompressLists},
		{"kubectl is the real one", kubectlIsReal},
		{"killed components come back", killedComponentsComeBack},
		{"pods run that came while kwok started", podsRunThatCameWhileKwokStarted},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(c.on(t)) })
	}

	c.stop()
	expectEmpty(t, temp)
}

func boots(c cluster) {
	info, err := os.Stat(c.Kubeconfig())
	if err != nil || info.Mode().Perm() != 0o600 {
		c.t.Errorf("kubeconfig: mode %v, %v", info.Mode(), err)
	}
	if !strings.HasPrefix(c.Address(), "https://127.0.0.1:") {
		c.t.Errorf("address is %s", c.Address())
	}
	if got := c.kubectl("get", "nodes", "-o", "name"); got != "node/node-1\nnode/node-2\nnode/node-3" {
		c.t.Errorf("nodes are %s", got)
	}
	if taints := c.kubectl("get", "nodes", "-o", "jsonpath={.items[*].spec.taints}"); taints != "" {
		c.t.Errorf("taints: %s", taints)
	}
	for _, component := range c.Components() {
		if component.PID == 0 || component.Restarts != 0 {
			c.t.Errorf("%+v", component)
		}
		if _, err := os.Stat(component.Log); err != nil {
			c.t.Error(err)
		}
	}
}

func podRuns(c cluster) {
	c.apply(`
apiVersion: v1
kind: Pod
metadata: {name: plain}
spec:
  initContainers:
  - {name: before, image: example.com/before}
  containers:
  - {name: main, image: example.com/main}
`)
	c.await("condition=Ready", "pod/plain")
	if phase := c.kubectl("get", "pod", "plain", "-o", "jsonpath={.status.phase}"); phase != "Running" {
		c.t.Errorf("phase is %s", phase)
	}
	c.kubectl("delete", "pod", "plain") // returns once it is gone
}

// A test that plays a container's end must not see it undone.
func finishedPodStaysFinished(c cluster) {
	for _, phase := range []string{"Failed", "Succeeded"} {
		name := strings.ToLower(phase)
		c.kubectl("run", name, "--image=example.com/x", "--restart=OnFailure")
		c.await("condition=Ready", "pod/"+name)
		c.kubectl("patch", "pod", name, "--subresource=status", "--type=merge", "-p", `{"status":{"phase":"`+phase+`"}}`)
		// Once a later pod is ready, the change has been seen by all.
		c.kubectl("run", "after-"+name, "--image=example.com/x")
		c.await("condition=Ready", "pod/after-"+name)
		if got := c.kubectl("get", "pod", name, "-o", "jsonpath={.status.phase}"); got != phase {
			c.t.Errorf("phase %s became %s", phase, got)
		}
	}
}

func jobCompletes(c cluster) {
	c.kubectl("create", "job", "sums", "--image=example.com/sums")
	c.await("condition=Complete", "job/sums")
}

func deploymentRollsOut(c cluster) {
	c.kubectl("create", "deployment", "web", "--image=example.com/web:1", "--replicas=3")
	c.kubectl("rollout", "status", "deployment/web", "--timeout="+waitTimeout.String())
	c.kubectl("set", "image", "deployment/web", "web=example.com/web:2")
	c.kubectl("rollout", "status", "deployment/web", "--timeout="+waitTimeout.String())
	c.kubectl("delete", "deployment", "web", "--cascade=foreground")
	if left := c.kubectl("get", "pods", "-l", "app=web", "-o", "name"); left != "" {
		c.t.Errorf("left behind: %s", left)
	}
}

func collectsGarbage(c cluster) {
	c.kubectl("create", "configmap", "owner")
	uid := c.kubectl("get", "configmap", "owner", "-o", "jsonpath={.metadata.uid}")
	c.apply(`
apiVersion: v1
kind: ConfigMap
metadata:
  name: owned
  ownerReferences:
  - {apiVersion: v1, kind: ConfigMap, name: owner, uid: ` + uid + `}
`)
	c.kubectl("delete", "configmap", "owner")
	c.await("delete", "configmap/owned")
}

func deletesNamespaces(c cluster) {
	c.kubectl("create", "namespace", "brief")
	c.kubectl("create", "configmap", "content", "-n", "brief")
	c.kubectl("create", "deployment", "content", "-n", "brief", "--image=example.com/content")
	c.kubectl("delete", "namespace", "brief")
}

// What is known of built-in kinds without an API server is what this one says.
func knowsBuiltInKinds(c cluster) {
	for _, namespaced := range []bool{true, false} {
		kinds := c.kubectl("api-resources", "--no-headers", "--verbs=list", fmt.Sprint("--namespaced=", namespaced))
		for line := range strings.Lines(kinds) {
			columns := strings.Fields(line)
			kind, group := columns[len(columns)-1], object.GroupOf(columns[len(columns)-3])
			switch group {
			case "apiextensions.k8s.io", "apiregistration.k8s.io": // What they are about is not built in.
			default:
				if !object.IsBuiltInGroup(group) || object.IsClusterScoped(kind) == namespaced {
					c.t.Errorf("not known: %s", line)
				}
			}
		}
	}
}

func listsComeInShards(c cluster) {
	const half = "/api/v1/namespaces?shardSelector=shardRange(object.metadata.uid,%20'0x0000000000000000',%20'0x8000000000000000')"
	if out := c.kubectl("get", "--raw", half); !strings.Contains(out, "shardInfo") {
		c.t.Errorf("the server knows no shards: %.200s", out)
	}
}

func doesNotCompressLists(c cluster) {
	const off = `kubernetes_feature_enabled{name="WatchListCompression",stage="BETA"} 0`
	if out := c.kubectl("get", "--raw", "/metrics"); !strings.Contains(out, off) {
		c.t.Error("the server compresses streamed lists")
	}
}

func kubectlIsReal(c cluster) {
	if out := c.kubectl("version"); strings.Count(out, "v1.37.2") != 2 {
		c.t.Errorf("versions:\n%s", out)
	}
	called := filepath.Base(os.Getenv(binaryVariable)) + " kubectl get"
	if out := c.kubectl("get", "--help"); !strings.Contains(out, called) {
		c.t.Errorf("help does not say how it was called:\n%s", out)
	}
	if _, err := c.tryKubectl("get", "pod", "no-such-pod"); err == nil || !strings.Contains(err.Error(), "NotFound") {
		c.t.Errorf("error is %v", err)
	}
}

func killedComponentsComeBack(c cluster) {
	for i, component := range c.Components() {
		victim := c.kill(component.Name)
		proctest.Eventually(c.t, waitTimeout, func() error { return hasRestarted(c, victim) })
		name := fmt.Sprint("survivor-", i)
		proctest.Eventually(c.t, waitTimeout, func() error {
			_, err := c.tryKubectl("create", "deployment", name, "--image=example.com/x")
			return err
		})
		proctest.Eventually(c.t, waitTimeout, func() error { // Another component may have ended with it.
			_, err := c.tryKubectl("rollout", "status", "deployment/"+name, "--timeout="+waitTimeout.String())
			return err
		})
	}
}

// Pods may reach their nodes at whatever moment of kwok's start.
func podsRunThatCameWhileKwokStarted(c cluster) {
	c.kill("kwok")
	c.kubectl("create", "deployment", "trickle", "--image=example.com/x")
	for replicas := 1; replicas <= 25; replicas++ {
		c.kubectl("scale", "deployment", "trickle", "--replicas="+strconv.Itoa(replicas))
	}
	c.kubectl("rollout", "status", "deployment/trickle", "--timeout="+waitTimeout.String())
}

func hasRestarted(c cluster, victim controlplane.Component) error {
	all := c.Components()
	i := slices.IndexFunc(all, func(each controlplane.Component) bool { return each.Name == victim.Name })
	if now := all[i]; now.PID == 0 || now.PID == victim.PID || now.Restarts != victim.Restarts+1 {
		return fmt.Errorf("%s was %+v, is %+v", victim.Name, victim, now)
	}
	return nil
}
