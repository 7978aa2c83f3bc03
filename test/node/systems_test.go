//go:build linux

package node_test

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	registry "github.com/google/go-containerregistry/pkg/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-dev/setpoint/internal/must"
	"github.com/setpoint-dev/setpoint/test/node/image"
)

// importProgram gives a program the image that examples/Dockerfile makes of it, as a kustomization.yaml names it.
func importProgram(t *testing.T, name string) {
	t.Helper()
	must.Succeed(t, machine.ImportImage(t.Context(), image.Image{
		Names: []string{"registry.example.com/" + name + ":v1"}, Files: map[string]string{"operator": "../../bin/node/operators/" + name},
		Config: registry.Config{Entrypoint: []string{"/operator"}, User: "65532"},
	}))
}

// deploy runs an example in the cluster as its README says, until the end of the test. The texts are replaced in its manifests.
func deploy(t *testing.T, example string, replaced ...string) {
	t.Helper()
	importProgram(t, example)
	file := filepath.Join(t.TempDir(), "deploy.yaml")
	manifests := strings.NewReplacer(replaced...).Replace(kubectl(t, "kustomize", "examples/"+example))
	must.Succeed(t, os.WriteFile(file, []byte(manifests), 0o600))
	kubectl(t, "apply", "-f", file)
	t.Cleanup(func() { kubectl(t, "delete", "-f", file, "--ignore-not-found") })
	must.Get(machine.AwaitPods(within(t, time.Minute), example, "app="+example, 2)).In(t)
}

// The pods of a Flask application are restarted one by one when their ConfigMap changes, and no request to their Service fails.
func TestConfigRestart(t *testing.T) {
	const frontend = "frontend"
	deploy(t, "config-restart")
	namespace(t, frontend)
	kubectl(t, "apply", "-n", frontend, "-f", "test/node/testdata/frontend.yaml")
	old := must.Get(machine.AwaitPods(within(t, time.Minute), frontend, "app=frontend", 3)).In(t)
	awaitMessage(t, old, "Welcome to Kubernetes")
	// What the operator sees for the first time is no change.
	awaitOutput(t, `"restart"`, "-n", frontend, "get", "configmap", "frontend-config", "-o",
		`jsonpath={.metadata.annotations.setpoint\.dev/handled-by-config-restart}`)

	service := must.Get(machine.Client.CoreV1().Services(frontend).Get(t.Context(), "frontend", metav1.GetOptions{})).In(t)
	stop := request(t, "http://"+service.Spec.ClusterIP)
	edited := time.Now()
	kubectl(t, "patch", "-n", frontend, "configmap", "frontend-config", "--type=merge",
		"-p", `{"data": {"config.cfg": "MSG=\"Welcome to Custom Controllers!\""}}`)
	await(t, func() error { return areReplaced(t, old) })
	now := must.Get(machine.AwaitPods(within(t, time.Minute), frontend, "app=frontend", 3)).In(t)
	awaitMessage(t, now, "Welcome to Custom Controllers!")
	t.Logf("three pods serve the new message %.1fs after the edit", time.Since(edited).Seconds())
	if served, failed := stop(); served == 0 || len(failed) > 0 {
		t.Errorf("meanwhile %d requests were served and %d failed: %v", served, len(failed), failed)
	}
	evicted := kubectl(t, "get", "events", "-n", frontend, "--field-selector", "reason=RestartingPods", "-o", `jsonpath={.items[*].message}`)
	if strings.Count(evicted, "frontend-") != len(old) {
		t.Errorf("of %d pods these were restarted for one edit: %s", len(old), evicted)
	}
}

// request sends requests to a URL, each on a connection of its own, until stop is called.
func request(t *testing.T, url string) (stop func() (count int, failed []error)) {
	t.Helper()
	var count int
	var failed []error
	var done sync.WaitGroup
	ended := make(chan struct{})
	done.Go(func() {
		for tick := time.Tick(20 * time.Millisecond); ; {
			select {
			case <-ended:
				return
			case <-tick:
			}
			if _, err := served(t.Context(), url); err != nil {
				failed = append(failed, err)
			} else {
				count++
			}
		}
	})
	return func() (int, []error) {
		close(ended)
		done.Wait()
		return count, failed
	}
}

// awaitMessage waits until each pod serves a message.
func awaitMessage(t *testing.T, pods []corev1.Pod, message string) {
	t.Helper()
	for i := range pods {
		awaitServed(t, "http://"+net.JoinHostPort(pods[i].Status.PodIP, "8080"), func(body string) bool { return body == message })
	}
}

// areReplaced says which of the pods is still there.
func areReplaced(t *testing.T, old []corev1.Pod) error {
	now := kubectl(t, "get", "pods", "-n", old[0].Namespace, "-o", "jsonpath={.items[*].metadata.uid}")
	for i := range old {
		if strings.Contains(now, string(old[i].UID)) {
			return fmt.Errorf("pod %s is still there", old[i].Name)
		}
	}
	return nil
}

// The sidecar of a Watcher is added to pods, runs, and reads its ConfigMap. Certificates are renewed meanwhile, and no pod lacks it.
func TestWatcher(t *testing.T) {
	const watched = "watched"
	const operator = "image: registry.example.com/watcher:v1"
	deploy(t, "watcher", operator, operator+"\n        args: [--admission-certificate-lifetime=15s]")
	t.Cleanup(func() {
		kubectl(t, "-n", "watcher", "scale", "deployment", "watcher", "--replicas=0")
		await(t, func() error {
			_, err := machine.Run(within(t, time.Minute), "bin/node/operators/watcher", "uninstall", "--namespace", "watcher")
			return err
		})
	})
	namespace(t, watched)
	kubectl(t, "apply", "-n", watched, "-f", "examples/watcher/example.yaml")
	kubectl(t, "patch", "-n", watched, "watcher", "heartbeat", "--type=merge", "-p", `{"spec": {"configData": {"INTERVAL": "1"}}}`)
	awaitOutput(t, "1", "get", "-n", watched, "configmap", "heartbeat-config", "-o", "jsonpath={.data.INTERVAL}")
	kubectl(t, "apply", "-n", watched, "-f", "examples/watcher/hello.yaml")
	for _, pod := range must.Get(machine.AwaitPods(within(t, time.Minute), watched, "app=hello", 3)).In(t) {
		// The sidecar asks the other container every second.
		awaitOutput(t, "hello", "exec", "-n", watched, pod.Name, "-c", "heartbeat", "--", "/bin/busybox", "cat", "/spool/last")
	}
	certificates, reviewed := map[string]bool{}, 0
	await(t, func() error {
		got := kubectl(t, "run", "web", "-n", watched, "--image=nginx:1.28", "--dry-run=server", "--annotations=watch.my.domain/inject=heartbeat",
			"-o", "jsonpath={.spec.containers[*].name}")
		if reviewed++; got != "web heartbeat" {
			t.Errorf("pod %d has the containers %s", reviewed, got)
		}
		certificates[kubectl(t, "get", "-n", "watcher", "secret", "watcher-admission", "-o", `jsonpath={.data.tls\.crt}`)] = true
		return missing(len(certificates), 3, "certificates")
	})
	t.Logf("%d pods were reviewed while the certificate was renewed twice", reviewed)
}

func missing(got, want int, what string) error {
	if got < want {
		return fmt.Errorf("%d %s, not %d", got, what, want)
	}
	return nil
}

// Guitars are reviewed.
func TestGuitar(t *testing.T) {
	const shop = "shop"
	deploy(t, "guitar")
	namespace(t, shop)
	kubectl(t, "apply", "-n", shop, "-f", "examples/guitar/example.yaml")
	awaitOutput(t, "this is a great instrument", "get", "-n", shop, "guitar", "stratocaster", "-o", "jsonpath={.spec.comment}")
	kubectl(t, "patch", "-n", shop, "guitar", "homemade", "--type=merge", "-p", `{"spec": {"brand": "Taylor", "review": false}}`)
	awaitOutput(t, "this one is decent", "get", "-n", shop, "guitar", "homemade", "-o", "jsonpath={.spec.comment}")
}

// A Job prints the rate in the ConfigMap that it mounts, which the operator in Go writes, and then the one in Python.
func TestExchangeRate(t *testing.T) {
	const rates = "rates"
	importProgram(t, rates)
	namespace(t, rates)
	kubectl(t, "apply", "-n", rates, "-f", "test/node/testdata/rates.yaml")
	must.Get(machine.AwaitPods(within(t, time.Minute), rates, "app=rates", 1)).In(t)
	t.Run("Go", func(t *testing.T) {
		deploy(t, "exchangerate", "https://api.frankfurter.dev/v1", "http://rates.rates")
		t.Cleanup(func() { kubectl(t, "delete", "crd", "exchangerates.operators.brennerm.github.io") })
		expectRate(t, "in-go")
	})
	t.Run("Kopf", func(t *testing.T) {
		deployScript(t)
		t.Cleanup(func() { kubectl(t, "delete", "crd", "exchangerates.operators.brennerm.github.io") })
		expectRate(t, "in-python")
	})
}

func expectRate(t *testing.T, consumer string) {
	t.Helper()
	namespace(t, consumer)
	await(t, func() error { // The operator makes the kind when it leads.
		_, err := machine.Setpoint(t.Context(), "kubectl", "apply", "-n", consumer, "-f", "examples/exchangerate/example.yaml")
		return err
	})
	kubectl(t, "apply", "-n", consumer, "-f", "test/node/testdata/job.yaml")
	kubectl(t, "wait", "-n", consumer, "--for=condition=Complete", "job/rate", "--timeout=60s")
	if got := kubectl(t, "logs", "-n", consumer, "job/rate"); got != "a euro is 1.1901 USD\n" {
		t.Errorf("the job prints %q", got)
	}
}

// deployScript runs examples/kopf/exchangerate.py by the image and the Deployment of docs/python.md.
func deployScript(t *testing.T) {
	t.Helper()
	const script = "examples/kopf/exchangerate.py"
	must.Succeed(t, machine.ImportImage(t.Context(), image.Image{
		Names: []string{"registry.example.com/exchangerate-kopf:v1"}, Folder: "python",
		Files:  map[string]string{"usr/local/bin/setpoint": "../../bin/setpoint-controller", "app/operator.py": "../../" + script},
		Config: registry.Config{Entrypoint: []string{"setpoint", "run", "--python", "/app/operator.py"}, User: "65532"},
	}))
	kubectl(t, "apply", "-f", "test/node/testdata/kopf.yaml")
	t.Cleanup(func() { kubectl(t, "delete", "-f", "test/node/testdata/kopf.yaml") })
	roles := filepath.Join(t.TempDir(), "roles.yaml")
	modules := must.Get(filepath.Abs("../../bin/node/python/usr/lib/python3/dist-packages")).In(t)
	text := must.Get(machine.Run(t.Context(), "env", "RATES=x", "PYTHONPATH="+modules,
		machine.Binary(), "rbac", "--python", script, "--name", "operator", "--service-account", "kopf/operator")).In(t)
	must.Succeed(t, os.WriteFile(roles, []byte(text), 0o600))
	kubectl(t, "apply", "-f", roles)
	t.Cleanup(func() { kubectl(t, "delete", "-f", roles) })
	kubectl(t, "-n", "kopf", "rollout", "status", "deployment", "operator", "--timeout=60s")
	must.Get(machine.AwaitPods(within(t, time.Minute), "kopf", "app=operator", 2)).In(t)
}
