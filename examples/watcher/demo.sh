#!/bin/sh
# shellcheck source=examples/show.sh
. "$(dirname "$0")/../show.sh"

heading 'watcher: pods changed before they are stored, by a Go program of two files' \
	'A Watcher is a container and its configuration. The program keeps a ConfigMap of that,' \
	'and adds the container to the pods that ask for it.'
await --for=condition=Ready watcher/heartbeat
await_output 'web heartbeat' "kubectl run web --image=nginx:1.28 --dry-run=server \\
    --annotations=watch.my.domain/inject=heartbeat -o 'jsonpath={.spec.containers[*].name}'"

show 'kubectl get watchers'
show 'kubectl get configmap heartbeat-config -o jsonpath="{.data}{\"\\n\"}"'
show "tail -7 $example/hello.yaml"
show "kubectl apply -f $example/hello.yaml"
kubectl rollout status deployment hello --timeout=10m >/dev/null
show "kubectl get pods -l app=hello -o 'custom-columns=NAME:.metadata.name,CONTAINERS:.spec.containers[*].name,PHASE:.status.phase'"
say 'Setpoint reverts an edit of the ConfigMap:'
show "kubectl patch configmap heartbeat-config -p '{\"data\": {\"INTERVAL\": \"9999\"}}'"
await_output 10 'kubectl get configmap heartbeat-config -o jsonpath={.data.INTERVAL}'
show 'kubectl get configmap heartbeat-config -o jsonpath="{.data}{\"\\n\"}"'
say 'A container that does not fit in is no reason to refuse a pod:'
show 'kubectl run heartbeat --image=nginx:1.28 --annotations=watch.my.domain/inject=heartbeat'
await_output Conflict "kubectl get events --field-selector involvedObject.kind=Watcher -o 'jsonpath={.items[0].reason}'"
show 'kubectl events --for watcher/heartbeat'
