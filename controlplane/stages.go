package controlplane

import (
	"strings"

	"sigs.k8s.io/kwok/kustomize/stage/node/fast"
	heartbeat "sigs.k8s.io/kwok/kustomize/stage/node/heartbeat-with-lease"
	pod "sigs.k8s.io/kwok/kustomize/stage/pod/fast"
)

// kwokConfiguration has kwok play the nodes that bear our annotation, prove with
// leases that they are alive, and hurry.
const kwokConfiguration = `apiVersion: config.kwok.x-k8s.io/v1alpha1
kind: KwokConfiguration
options:
  cidr: ` + podRange + `
  manageNodesWithAnnotationSelector: ` + nodeAnnotation + `=` + nodeAnnotationValue + `
  nodeLeaseDurationSeconds: 40
  nodeLeaseParallelism: 4
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
