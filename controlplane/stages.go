package controlplane

import (
	"strings"

	"sigs.k8s.io/kwok/kustomize/stage/node/fast"
	heartbeat "sigs.k8s.io/kwok/kustomize/stage/node/heartbeat-with-lease"
	pod "sigs.k8s.io/kwok/kustomize/stage/pod/fast"
)

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
