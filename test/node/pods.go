//go:build linux

package node

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// AwaitPods waits until as many pods as wanted have the labels, all ready and none in deletion. The error explains why a pod is not.
func (n *Node) AwaitPods(ctx context.Context, namespace, selector string, wanted int) error {
	var pods []corev1.Pod
	err := n.Await(ctx, func() error {
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
		err = fmt.Errorf("%w\n%s", err, n.Explain(context.WithoutCancel(ctx), pods))
	}
	return err
}

func isReady(pod *corev1.Pod) bool {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}

// Explain has what kubectl says of each pod that is not ready, and the end of the logs of its containers, also of those that ended.
func (n *Node) Explain(ctx context.Context, pods []corev1.Pod) string {
	var text strings.Builder
	for i := range pods {
		if isReady(&pods[i]) {
			continue
		}
		const logs = "logs --all-containers --prefix --tail 15"
		for _, command := range []string{"describe pod", logs, logs + " --previous"} {
			args := append([]string{"kubectl", "-n", pods[i].Namespace}, append(strings.Fields(command), pods[i].Name)...)
			said, err := Output(ctx, args...)
			if err != nil {
				said = err.Error() // There may be none.
			}
			fmt.Fprintf(&text, "%s\n%s\n", strings.Join(args, " "), said)
		}
	}
	return text.String()
}
