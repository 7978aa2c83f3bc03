package components

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

// releaseLeases frees the nodes from the kwok that ran before this one. Each kwok
// draws a random identity and respects the leases of others until they run out;
// but there is only ever one in a cluster, so that a predecessor, killed half a
// minute ago, would just keep every pod of its nodes waiting.
func releaseLeases(ctx context.Context, kubeconfig string) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return fmt.Errorf("read kubeconfig: %w", err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("make client: %w", err)
	}
	leases := client.CoordinationV1().Leases("kube-node-lease")
	free := []byte(`{"spec":{"holderIdentity":null}}`)
	return wait.PollUntilContextCancel(ctx, 200*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		held, err := leases.List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, nil // the API server may be restarting, too
		}
		for _, lease := range held.Items {
			if _, err := leases.Patch(ctx, lease.Name, types.MergePatchType, free, metav1.PatchOptions{}); err != nil {
				return false, nil
			}
		}
		return true, nil
	})
}
