#!/bin/sh
# shellcheck source=examples/show.sh
. "$(dirname "$0")/../show.sh"

heading 'immortalcontainer: a pod that always comes back' \
	'sync.py says which pod there should be. The one that is there gets deleted:'
await --for=jsonpath='{.status.currentPod}'=example-immortalpod immortalcontainer/example
await --for=condition=Ready pod/example-immortalpod
before=$(kubectl get pod example-immortalpod -o 'jsonpath={.metadata.uid}')

show 'kubectl get immortalcontainers'
show 'kubectl delete pod example-immortalpod'
# Polled, not awaited: the simulated nodes delete pods by name, sometimes also the next
# pod of that name, and kubectl wait fails if the pod does not exist.
await_output Running 'kubectl get pod example-immortalpod -o jsonpath={.status.phase}'
show 'kubectl get pod example-immortalpod'

after=$(kubectl get pod example-immortalpod -o 'jsonpath={.metadata.uid}')
[ "$before" != "$after" ] || fail "the pod is still the old one ($before)"

say 'What would another image do? A plan asks sync.py, and writes nothing:'
planned=0
show "sed s/nginx:1.27/nginx:1.28/ $example/example.yaml |
    setpoint plan compositecontroller.metacontroller.k8s.io/immortalcontainers-controller -f /dev/stdin" || planned=$?
[ "$planned" = 2 ] || fail "the plan should have changes in it and exit with 2, not with $planned"
