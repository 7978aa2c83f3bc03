//go:build linux

package node_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/setpoint-dev/setpoint/internal/must"
)

const (
	system   = "setpoint-system"
	replicas = "app.kubernetes.io/name=setpoint"
	// dist is what `make release` has written, without most platforms.
	dist = "bin/node/release"
)

// TestInstallation follows docs/install.md where there is no registry, from the image to the uninstallation.
func TestInstallation(t *testing.T) {
	before := objects(t)
	for _, step := range []struct {
		name string
		run  func(*testing.T)
	}{
		{"the image has one name", importImage},
		{"both replicas are ready", install},
		{"an inline controller runs", runInline},
		{"a hook in a pod is called", runHook},
		{"the other replica leads when the leader is deleted", deleteLeader},
		{"nothing is left", uninstall},
	} {
		if !t.Run(step.name, step.run) {
			t.FailNow()
		}
	}
	if left := without(objects(t), before); len(left) > 0 {
		t.Errorf("after the uninstallation there are\n%s", strings.Join(left, "\n"))
	}
}

// importImage is the command of docs/install.md. The kubelet takes any name of the image, so it may have only this one.
func importImage(t *testing.T) {
	before := imageNames(t)
	archive := filepath.Join(t.TempDir(), "setpoint.tar")
	must.Succeed(t, exec.Command("tar", "-C", filepath.Join("../..", dist, "image"), "-cf", archive, ".").Run())
	must.Get(machine.Ctr(t.Context(), "images", "import", archive)).In(t)
	names := slices.DeleteFunc(without(imageNames(t), before), func(name string) bool { return strings.HasPrefix(name, "sha256:") })
	if !slices.Equal(names, []string{"docker.io/library/setpoint:0.1.0"}) {
		t.Errorf("the image has the names %v", names)
	}
}

func imageNames(t *testing.T) []string {
	t.Helper()
	return strings.Fields(must.Get(machine.Ctr(t.Context(), "images", "list", "-q")).In(t))
}

func install(t *testing.T) {
	begin := time.Now()
	kubectl(t, "apply", "--server-side", "-k", dist+"/install")
	pods := must.Get(machine.AwaitPods(within(t, time.Minute), system, replicas, 2)).In(t)
	kubectl(t, "-n", system, "rollout", "status", "deployment/setpoint", "--timeout=60s")
	t.Logf("both replicas are ready %.1fs after kubectl apply", time.Since(begin).Seconds())
	for i := range pods {
		inside := pods[i].Spec.Containers[0].SecurityContext
		if !*inside.ReadOnlyRootFilesystem || *inside.AllowPrivilegeEscalation || pods[i].Spec.SecurityContext.SeccompProfile == nil {
			t.Errorf("pod %s is not restricted: %v", pods[i].Name, inside)
		}
	}
}

// example is examples/immortalcontainer.
const (
	example     = "examples/immortalcontainer"
	immortalPod = "example-immortalpod"
)

// runInline has the operator in one file, with the roles that `setpoint rbac` prints.
func runInline(t *testing.T) {
	const file = example + "/inline.yaml"
	rights(t, "apply", file)
	// The kind of the object in the file is defined in the file.
	await(t, func() error {
		_, err := machine.Setpoint(t.Context(), "kubectl", "apply", "-f", file)
		return err
	})
	awaitImmortal(t, "", "nginx:1.27")
	deleteImmortal(t)
	rights(t, "delete", file)
	kubectl(t, "delete", "-f", file)
}

// runHook has the hook in Python in a pod, behind a Service.
func runHook(t *testing.T) {
	kubectl(t, "apply", "-k", example)
	must.Get(machine.AwaitPods(within(t, time.Minute), "immortalcontainers", "app=immortalcontainers-controller", 1)).In(t)
	rights(t, "apply", example+"/controller.yaml")
	kubectl(t, "apply", "-f", example+"/example.yaml")
	pod := awaitImmortal(t, "", "nginx:1.27")
	killContainer(t, pod)
	deleteImmortal(t)
	kubectl(t, "patch", "immortalcontainer", "example", "--type=merge", "-p", `{"spec": {"image": "nginx:1.28"}}`)
	awaitImmortal(t, "", "nginx:1.28")
}

// rights applies, or deletes, the roles that Setpoint needs for the controllers in a file.
func rights(t *testing.T, verb, file string) {
	t.Helper()
	roles := filepath.Join(t.TempDir(), "roles.yaml")
	must.Succeed(t, os.WriteFile(roles, []byte(must.Get(machine.Setpoint(t.Context(), "rbac", file)).In(t)), 0o600))
	kubectl(t, verb, "-f", roles)
}

// deleteImmortal deletes the immortal pod, which comes back.
func deleteImmortal(t *testing.T) {
	t.Helper()
	old := must.Get(machine.Client.CoreV1().Pods("default").Get(t.Context(), immortalPod, metav1.GetOptions{})).In(t)
	kubectl(t, "delete", "pod", immortalPod)
	awaitImmortal(t, old.UID, old.Spec.Containers[0].Image)
}

// awaitImmortal waits until the immortal pod runs an image, and is not the one with a UID.
func awaitImmortal(t *testing.T, not types.UID, image string) *corev1.Pod {
	t.Helper()
	var pod *corev1.Pod
	await(t, func() (err error) {
		pod, err = machine.Client.CoreV1().Pods("default").Get(t.Context(), immortalPod, metav1.GetOptions{})
		switch {
		case err != nil:
			return err
		case pod.UID == not || pod.DeletionTimestamp != nil || pod.Spec.Containers[0].Image != image:
			return fmt.Errorf("the immortal pod of image %s has not come back", image)
		case pod.Status.Phase != corev1.PodRunning:
			return fmt.Errorf("the immortal pod does not run: %s", machine.Explain(t.Context(), []corev1.Pod{*pod}))
		}
		return nil
	})
	return pod
}

func deleteLeader(t *testing.T) {
	old := leader(t)
	begin := time.Now()
	kubectl(t, "-n", system, "delete", "pod", old, "--wait=false")
	await(t, func() error {
		if now := leader(t); now == old || now == "" {
			return fmt.Errorf("pod %q leads", now)
		}
		return nil
	})
	t.Logf("the other replica leads %.1fs after the deletion", time.Since(begin).Seconds())
	must.Get(machine.AwaitPods(within(t, time.Minute), system, replicas, 2)).In(t)
	deleteImmortal(t)
}

// leader is the pod that holds the Lease, or "".
func leader(t *testing.T) string {
	t.Helper()
	pod, _, _ := strings.Cut(kubectl(t, "-n", system, "get", "lease", "setpoint", "-o", "jsonpath={.spec.holderIdentity}"), "_")
	return pod
}

// uninstall is that of docs/install.md, and the end of what this test has installed itself.
func uninstall(t *testing.T) {
	rights(t, "delete", example+"/controller.yaml")
	kubectl(t, "delete", "-f", dist+"/install/install.yaml")
	must.Get(machine.Setpoint(within(t, time.Minute), "uninstall", "--crds")).In(t)
	must.Get(machine.Client.CoreV1().Pods("default").Get(t.Context(), immortalPod, metav1.GetOptions{})).In(t)
	kubectl(t, "delete", "-k", example, "--ignore-not-found") // Its controller went with the CRDs.
	await(t, func() error {
		if _, err := machine.Client.CoreV1().Pods("default").Get(t.Context(), immortalPod, metav1.GetOptions{}); err == nil {
			return errors.New("the pod of a deleted ImmortalContainer is still there")
		}
		return nil
	})
}

// objects lists all objects of the cluster but events, and what its own programs keep for themselves.
func objects(t *testing.T) []string {
	t.Helper()
	kinds := strings.Fields(kubectl(t, "api-resources", "--verbs=list", "-o", "name"))
	kinds = slices.DeleteFunc(kinds, func(kind string) bool {
		return strings.HasPrefix(kind, "events") || strings.HasPrefix(kind, "leases") || strings.HasPrefix(kind, "componentstatuses")
	})
	const names = `go-template={{range .items}}{{.kind}} {{.metadata.namespace}} {{.metadata.name}}{{"\n"}}{{end}}`
	return strings.Split(kubectl(t, "get", strings.Join(kinds, ","), "--all-namespaces", "-o", names), "\n")
}

func without(list, others []string) []string {
	return slices.DeleteFunc(list, func(one string) bool { return slices.Contains(others, one) })
}
