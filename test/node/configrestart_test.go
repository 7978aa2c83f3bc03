//go:build linux

package node_test

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-dev/setpoint/internal/must"
)

// The operator of examples/config-restart, deployed as its README says, restarts the pods of a Flask application one by one.
func TestConfigRestart(t *testing.T) {
	const operator, frontend = "config-restart", "frontend"
	// Where a user would push it, says examples/config-restart/kustomization.yaml.
	must.Succeed(t, machine.ImportProgram(t.Context(), "registry.example.com/config-restart:v1", "../../bin/node/config-restart"))
	kubectl(t, "apply", "-k", "examples/config-restart")
	t.Cleanup(func() { kubectl(t, "delete", "-k", "examples/config-restart") })
	must.Get(machine.AwaitPods(within(t, time.Minute), operator, "app=config-restart", 2)).In(t)

	namespace(t, frontend)
	kubectl(t, "apply", "-n", frontend, "-f", "test/node/testdata/frontend.yaml")
	old := must.Get(machine.AwaitPods(within(t, time.Minute), frontend, "app=frontend", 3)).In(t)
	awaitMessage(t, old, "Welcome to Kubernetes")
	awaitSeen(t, frontend)

	edited := time.Now()
	kubectl(t, "patch", "-n", frontend, "configmap", "frontend-config", "--type=merge",
		"-p", `{"data": {"config.cfg": "MSG=\"Welcome to Custom Controllers!\""}}`)
	await(t, func() error { return areReplaced(t, old) })
	now := must.Get(machine.AwaitPods(within(t, time.Minute), frontend, "app=frontend", 3)).In(t)
	awaitMessage(t, now, "Welcome to Custom Controllers!")
	t.Logf("three pods serve the new message %.1fs after the edit", time.Since(edited).Seconds())
	if evicted := evictions(t, frontend); len(evicted) != len(old) {
		t.Errorf("%d pods were restarted for one edit, of %d:\n%s", len(evicted), len(old), strings.Join(evicted, "\n"))
	}
}

// awaitMessage waits until each pod serves a message.
func awaitMessage(t *testing.T, pods []corev1.Pod, message string) {
	t.Helper()
	for i := range pods {
		awaitServed(t, "http://"+net.JoinHostPort(pods[i].Status.PodIP, "8080"), func(body string) bool { return body == message })
	}
}

// awaitSeen waits until the operator has recorded the data: what it sees for the first time is no change.
func awaitSeen(t *testing.T, namespace string) {
	t.Helper()
	await(t, func() error {
		config, err := machine.Client.CoreV1().ConfigMaps(namespace).Get(t.Context(), "frontend-config", metav1.GetOptions{})
		if err == nil && config.Annotations["setpoint.dev/handled-by-config-restart"] == "" {
			err = errors.New("the operator has not seen the ConfigMap")
		}
		return err
	})
}

func areReplaced(t *testing.T, old []corev1.Pod) error {
	list, err := machine.Client.CoreV1().Pods(old[0].Namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		return err
	}
	for i := range list.Items {
		for j := range old {
			if list.Items[i].UID == old[j].UID {
				return fmt.Errorf("pod %s is still there", old[j].Name)
			}
		}
	}
	return nil
}

// evictions are the pods that the operator says it restarts.
func evictions(t *testing.T, namespace string) []string {
	t.Helper()
	events := must.Get(machine.Client.CoreV1().Events(namespace).List(t.Context(), metav1.ListOptions{FieldSelector: "reason=RestartingPods"})).In(t)
	var pods []string
	for _, event := range events.Items {
		_, names, _ := strings.Cut(event.Message, ": ")
		pods = append(pods, strings.Split(names, ", ")...)
	}
	return pods
}
