//go:build linux

package node

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-dev/setpoint/test/node/sandbox"
)

// component is a program of the node. It runs until the sandbox ends.
type component struct {
	cmd *exec.Cmd
	log string
	// ended is closed when it has ended, which is an error.
	ended chan struct{}
}

func (n *Node) startComponent(name string, args ...string) error {
	c := &component{cmd: exec.Command(name, args...), log: n.folder("logs", name+".log"), ended: make(chan struct{})}
	log, err := os.OpenFile(c.log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	c.cmd.Stdout, c.cmd.Stderr = log, log
	if err := c.cmd.Start(); err != nil {
		return err
	}
	n.components[name] = c
	go func() {
		defer close(c.ended)
		_ = c.cmd.Wait()
	}()
	return nil
}

// Restart kills a component, and starts it again.
func (n *Node) Restart(name string) error {
	old := n.components[name]
	if err := old.cmd.Process.Kill(); err != nil {
		return err
	}
	<-old.ended
	return n.startComponent(name, old.cmd.Args[1:]...)
}

// failure names a component that has ended.
func (n *Node) failure() error {
	for name, c := range n.components {
		select {
		case <-c.ended:
			return fmt.Errorf("%s has ended; its log %s ends:\n%s", name, c.log, tail(c.log))
		default:
		}
	}
	return nil
}

// Await waits until check succeeds. If that takes too long, the error is what check has said last; if a component ends, its log.
func (n *Node) Await(ctx context.Context, check func() error) error {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		err := check()
		if err == nil {
			return nil
		}
		if failure := n.failure(); failure != nil {
			return failure
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return err
		}
	}
}

func (n *Node) startContainerd(ctx context.Context) error {
	if err := n.startComponent("containerd", "--config="+home("config", "containerd.toml")); err != nil {
		return err
	}
	return n.Await(ctx, func() error {
		connection, err := net.Dial("unix", "/run/containerd/containerd.sock")
		if err != nil {
			return err
		}
		return connection.Close()
	})
}

// startNode starts what makes the machine a node, and waits until it takes pods.
func (n *Node) startNode(ctx context.Context) error {
	if err := n.authorizeAPIServer(ctx); err != nil {
		return err
	}
	if err := n.serveDNS(); err != nil {
		return err
	}
	if err := n.startComponent("kubelet", "--config="+home("config", "kubelet.yaml"), "--kubeconfig="+n.cluster.Kubeconfig(),
		"--root-dir="+home("kubelet"), "--cert-dir="+home("kubelet", "pki"), "--node-ip="+address,
		"--hostname-override="+sandbox.Hostname); err != nil {
		return err
	}
	if err := n.startComponent("kube-proxy", "--config="+home("config", "kube-proxy.yaml")); err != nil {
		return err
	}
	return n.Await(ctx, func() error { return n.ready(ctx) })
}

// authorizeAPIServer lets the API server, as the front proxy that it is to the kubelet, read logs and run commands.
func (n *Node) authorizeAPIServer(ctx context.Context) error {
	_, err := n.Client.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "test-node"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "system:kubelet-api-admin"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: "front-proxy"}},
	}, metav1.CreateOptions{})
	return err
}

func (n *Node) ready(ctx context.Context) error {
	node, err := n.Client.CoreV1().Nodes().Get(ctx, sandbox.Hostname, metav1.GetOptions{})
	if err != nil {
		return err
	}
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady && condition.Status != corev1.ConditionTrue {
			return fmt.Errorf("the node is not ready: %s: %s", condition.Reason, condition.Message)
		}
	}
	if len(node.Spec.Taints) > 0 {
		return fmt.Errorf("the node has the taint %s", node.Spec.Taints[0].Key)
	}
	return nil
}

// Output runs a command and returns what it has printed.
func Output(ctx context.Context, args ...string) (string, error) {
	var out, problems strings.Builder
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Stdout, cmd.Stderr = &out, &problems
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s: %w\n%s%s", strings.Join(args, " "), err, out.String(), problems.String())
	}
	return out.String(), nil
}

const tailLines = 15

func tail(file string) string {
	text, err := os.ReadFile(file)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimRight(string(text), "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-tailLines):], "\n")
}
