package controlplane

import (
	"context"
	"fmt"
	"runtime"
	"strings"

	"sigs.k8s.io/kwok/kustomize/stage/node/fast"
	heartbeat "sigs.k8s.io/kwok/kustomize/stage/node/heartbeat-with-lease"
	pod "sigs.k8s.io/kwok/kustomize/stage/pod/fast"

	"github.com/setpoint-dev/setpoint/controlplane/internal/names"
)

const (
	nodeAnnotation      = "kwok.x-k8s.io/node"
	nodeAnnotationValue = "fake"
)

// object is a Kubernetes object to be created; the few we need do not warrant
// typed clients.
type object map[string]any

// nodeList is the part of a node listing that tells whether pods can go there.
type nodeList struct {
	Items []node `json:"items"`
}

type node struct {
	Metadata struct {
		Name string `json:"name"`
	} `json:"metadata"`
	Spec struct {
		Taints []struct {
			Key string `json:"key"`
		} `json:"taints"`
	} `json:"spec"`
	Status struct {
		Conditions []struct {
			Type   string `json:"type"`
			Status string `json:"status"`
		} `json:"conditions"`
	} `json:"status"`
}

// takesPods is true once the node is Ready and the controllers have seen it: a
// new node carries a taint until then.
func (n node) takesPods() bool {
	for _, taint := range n.Spec.Taints {
		if taint.Key == "node.kubernetes.io/not-ready" {
			return false
		}
	}
	for _, condition := range n.Status.Conditions {
		if condition.Type == "Ready" {
			return condition.Status == "True"
		}
	}
	return false
}

// authorizeKwok gives kwok, a user like any other, what its work takes.
func (c *Cluster) authorizeKwok(ctx context.Context) error {
	const rbac = "rbac.authorization.k8s.io"
	url := c.Address() + "/apis/" + rbac + "/v1/"
	if err := c.admin.Create(ctx, url+"clusterroles", object{
		"metadata": object{"name": kwokUser},
		"rules": []object{
			{"apiGroups": []string{""}, "resources": []string{"nodes", "pods"},
				"verbs": []string{"get", "list", "watch", "update", "patch", "delete"}},
			{"apiGroups": []string{""}, "resources": []string{"nodes/status", "pods/status"}, "verbs": []string{"update", "patch"}},
			{"apiGroups": []string{"", "events.k8s.io"}, "resources": []string{"events"}, "verbs": []string{"create", "patch", "update"}},
		},
	}); err != nil {
		return fmt.Errorf("create role of kwok: %w", err)
	}
	if err := c.admin.Create(ctx, url+"clusterrolebindings", object{
		"metadata": object{"name": kwokUser},
		"roleRef":  object{"apiGroup": rbac, "kind": "ClusterRole", "name": kwokUser},
		"subjects": []object{{"apiGroup": rbac, "kind": "User", "name": kwokUser}},
	}); err != nil {
		return fmt.Errorf("bind role of kwok: %w", err)
	}
	return nil
}

// bringUpNodes registers the nodes and waits until they take pods.
func (c *Cluster) bringUpNodes(ctx context.Context) error {
	for i := range c.opts.Nodes {
		if err := c.admin.Create(ctx, c.Address()+"/api/v1/nodes", newNode(nodeName(i))); err != nil {
			return fmt.Errorf("create node: %w", err)
		}
	}
	return c.await(ctx, names.Kwok, c.nodesReady)
}

func nodeName(i int) string { return fmt.Sprintf("node-%d", i+1) }

func newNode(name string) object {
	capacity := object{"cpu": "256", "memory": "1Ti", "ephemeral-storage": "4Ti", "pods": "10000"}
	return object{
		"metadata": object{
			"name":        name,
			"annotations": object{nodeAnnotation: nodeAnnotationValue},
			"labels": object{
				"kubernetes.io/hostname": name,
				"kubernetes.io/os":       "linux",
				"kubernetes.io/arch":     runtime.GOARCH,
				"type":                   "kwok",
			},
		},
		"status": object{
			"capacity":    capacity,
			"allocatable": capacity,
			"nodeInfo":    object{"architecture": runtime.GOARCH, "operatingSystem": "linux"},
		},
	}
}

// nodesReady holds when every node of ours takes pods.
func (c *Cluster) nodesReady(ctx context.Context) error {
	var nodes nodeList
	if err := c.admin.Get(ctx, c.Address()+"/api/v1/nodes", &nodes); err != nil {
		return err
	}
	accepts := map[string]bool{}
	for _, node := range nodes.Items {
		accepts[node.Metadata.Name] = node.takesPods()
	}
	for i := range c.opts.Nodes {
		if name := nodeName(i); !accepts[name] {
			return fmt.Errorf("node %s is not ready", name)
		}
	}
	return nil
}

// kwokConfiguration has kwok play the nodes that bear our annotation, and hurry. It
// takes no leases on them: a kwok that waits for the lease of its predecessor, or
// for its own to come back through a watch, passes over the pods of that moment and
// never looks at them again.
const kwokConfiguration = `apiVersion: config.kwok.x-k8s.io/v1alpha1
kind: KwokConfiguration
options:
  cidr: ` + podRange + `
  manageNodesWithAnnotationSelector: ` + nodeAnnotation + `=` + nodeAnnotationValue + `
  nodeLeaseDurationSeconds: 0
  podsOnNodeSyncParallelism: 2
  podPlayStageParallelism: 16
  nodePlayStageParallelism: 4
`

func (c *Cluster) stagesFile() string { return c.dir.Path("run", "kwok.yaml") }

// writeStages writes kwok's configuration: its settings, and the stages that a
// node and a pod go through.
func (c *Cluster) writeStages() error {
	documents := []string{
		kwokConfiguration,
		fast.DefaultNodeInit,
		heartbeat.DefaultNodeHeartbeatWithLease,
		pod.DefaultPodReady,
		pod.DefaultPodComplete,
		pod.DefaultPodDelete,
	}
	return c.dir.Write("run/kwok.yaml", []byte(strings.Join(documents, "\n---\n")))
}
