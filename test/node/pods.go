//go:build linux

package node

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
)

// binary is the setpoint binary.
func (n *Node) binary() string {
	if named := os.Getenv("SETPOINT"); named != "" {
		return named
	}
	return filepath.Join(n.Root, "bin", "setpoint")
}

// Setpoint runs a command of setpoint, such as kubectl, as an admin of the cluster in the folder of the repository.
func (n *Node) Setpoint(ctx context.Context, args ...string) (string, error) {
	cmd := append([]string{"env", "-C", n.Root, "KUBECONFIG=" + n.cluster.Kubeconfig(), n.binary()}, args...)
	return output(ctx, cmd...)
}

// AwaitPods waits until as many pods as wanted have the labels, all ready and none in deletion. The error explains why a pod is not.
func (n *Node) AwaitPods(ctx context.Context, namespace, selector string, wanted int) ([]corev1.Pod, error) {
	var pods []corev1.Pod
	err := n.await(ctx, func() error {
		list, err := n.Client.CoreV1().Pods(namespace).List(context.WithoutCancel(ctx), metav1.ListOptions{LabelSelector: selector})
		if err != nil {
			return err
		}
		pods = list.Items
		for i := range pods {
			if pods[i].DeletionTimestamp != nil || !isReady(&pods[i]) {
				return fmt.Errorf("pod %s is not ready", pods[i].Name)
			}
		}
		if len(pods) != wanted {
			return fmt.Errorf("%d pods match %s, not %d", len(pods), selector, wanted)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("%w\n%s", err, n.Explain(context.WithoutCancel(ctx), pods))
	}
	return pods, nil
}

func isReady(pod *corev1.Pod) bool {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}

// Explain says of each pod that is not ready which container is the reason, what the kubelet says about it, and what it logged.
func (n *Node) Explain(ctx context.Context, pods []corev1.Pod) string {
	var text strings.Builder
	for i := range pods {
		if pod := &pods[i]; !isReady(pod) {
			n.explain(ctx, &text, pod)
		}
	}
	return text.String()
}

func (n *Node) explain(ctx context.Context, text *strings.Builder, pod *corev1.Pod) {
	fmt.Fprintf(text, "pod %s/%s: %s\n", pod.Namespace, pod.Name, pod.Status.Phase)
	for _, status := range append(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses...) {
		if status.Ready {
			continue
		}
		fmt.Fprintf(text, "  container %s of image %s: %s, restarted %d times\n",
			status.Name, status.Image, state(status.State), status.RestartCount)
		if status.RestartCount > 0 {
			fmt.Fprintf(text, "    before: %s\n", state(status.LastTerminationState))
		}
		n.quoteLog(ctx, text, pod, status.Name, status.RestartCount > 0 && status.State.Running == nil)
	}
	events, err := n.Client.CoreV1().Events(pod.Namespace).List(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector("involvedObject.uid", string(pod.UID)).String(),
	})
	if err != nil {
		fmt.Fprintf(text, "  events: %v\n", err)
		return
	}
	for _, event := range events.Items {
		fmt.Fprintf(text, "  %s %s: %s\n", event.Type, event.Reason, event.Message)
	}
}

// quoteLog adds the end of the log of a container, or of the one before its last restart.
func (n *Node) quoteLog(ctx context.Context, text *strings.Builder, pod *corev1.Pod, container string, previous bool) {
	lines := int64(tailLines)
	log, err := n.Client.CoreV1().Pods(pod.Namespace).GetLogs(pod.Name, &corev1.PodLogOptions{
		Container: container, Previous: previous, TailLines: &lines,
	}).DoRaw(ctx)
	if err != nil {
		fmt.Fprintf(text, "    no log: %v\n", err)
		return
	}
	for line := range strings.Lines(string(log)) {
		fmt.Fprintf(text, "    | %s\n", strings.TrimRight(line, "\n"))
	}
}

func state(s corev1.ContainerState) string {
	switch {
	case s.Waiting != nil:
		return strings.TrimSuffix("waiting, "+s.Waiting.Reason+": "+s.Waiting.Message, ": ")
	case s.Terminated != nil:
		return fmt.Sprintf("ended with code %d, %s %s", s.Terminated.ExitCode, s.Terminated.Reason, s.Terminated.Message)
	case s.Running != nil:
		return "running since " + s.Running.StartedAt.Format("15:04:05")
	}
	return "not created"
}
