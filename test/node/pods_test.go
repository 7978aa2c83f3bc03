//go:build linux

package node_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-dev/setpoint/internal/must"
)

func TestPods(t *testing.T) {
	const pods = "pods"
	namespace(t, pods)
	kubectl(t, "apply", "-n", pods, "-f", "test/node/testdata/web.yaml")
	must.Get(machine.AwaitPods(within(t, time.Minute), pods, "app=client", 1)).In(t)
	web := must.Get(machine.AwaitPods(within(t, time.Minute), pods, "app=web", 2)).In(t)

	t.Run("a Service is reached from the node", func(t *testing.T) {
		service := must.Get(machine.Client.CoreV1().Services(pods).Get(t.Context(), "web", metav1.GetOptions{})).In(t)
		awaitServed(t, "http://"+service.Spec.ClusterIP, isPodOf(web))
	})
	t.Run("and by name from a pod", func(t *testing.T) {
		if got := kubectl(t, "exec", "-n", pods, "client", "--", "/bin/busybox", "wget", "-q", "-O", "-", "http://web"); !isPodOf(web)(got) {
			t.Errorf("served %q", got)
		}
	})
	t.Run("logs", func(t *testing.T) {
		if got := kubectl(t, "logs", "-n", pods, web[0].Name); !strings.HasPrefix(got, "started\n") {
			t.Errorf("logged %q", got)
		}
	})
	t.Run("a container that is killed comes back", func(t *testing.T) {
		killContainer(t, &web[0])
	})
}

// A failure names the container, and has its log and the reason of the kubelet.
func TestExplain(t *testing.T) {
	const broken = "broken"
	namespace(t, broken)
	kubectl(t, "apply", "-n", broken, "-f", "test/node/testdata/broken.yaml")
	_, err := machine.AwaitPods(within(t, 8*time.Second), broken, "app", 2)
	if err == nil {
		t.Fatal("they are ready")
	}
	for _, want := range []string{
		"docker.io/test/busybox:1", "Exit Code:    3", "/program] no configuration", "BackOff", "docker.io/test/missing:1", "ErrImageNeverPull",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in the explanation:\n%v", want, err)
		}
	}
	t.Log(err)
}

// awaitServed waits until a URL serves what is wanted.
func awaitServed(t *testing.T, url string, wanted func(body string) bool) {
	t.Helper()
	await(t, func() error {
		body, err := served(t.Context(), url)
		if err == nil && !wanted(body) {
			err = fmt.Errorf("%s serves %q", url, body)
		}
		return err
	})
}

// served is the body of one request, on a connection of its own.
func served(ctx context.Context, url string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return "", err
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 2 * time.Second}
	response, err := client.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = errors.New(response.Status)
	}
	return string(body), err
}

// isPodOf says that a body is the name of one of the pods.
func isPodOf(pods []corev1.Pod) func(string) bool {
	return func(body string) bool {
		return slices.ContainsFunc(pods, func(pod corev1.Pod) bool { return strings.TrimSpace(body) == pod.Name })
	}
}

// killContainer kills the first container of a pod, which comes back.
func killContainer(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	id := strings.TrimPrefix(pod.Status.ContainerStatuses[0].ContainerID, "containerd://")
	must.Get(machine.Ctr(t.Context(), "tasks", "kill", "--signal", "SIGKILL", id)).In(t)
	await(t, func() error {
		now, err := machine.Client.CoreV1().Pods(pod.Namespace).Get(t.Context(), pod.Name, metav1.GetOptions{})
		if err == nil && (now.Status.ContainerStatuses[0].RestartCount != 1 || !now.Status.ContainerStatuses[0].Ready) {
			err = fmt.Errorf("the container has not come back: %s", machine.Explain(t.Context(), []corev1.Pod{*now}))
		}
		return err
	})
}

// await waits until check succeeds, for a minute.
func await(t *testing.T, check func() error) {
	t.Helper()
	must.Succeed(t, machine.Await(within(t, time.Minute), check))
}
