#!/bin/sh
# shellcheck source=examples/show.sh
. "$(dirname "$0")/../show.sh"

heading 'config-restart: a controller off the shelf, in a Go program of a few lines' \
	'The pods that an annotated ConfigMap names come back when its data changes, one by' \
	'one.'
kubectl rollout status deployment frontend --timeout=10m >/dev/null
await --for='jsonpath={.metadata.annotations.setpoint\.dev/handled-by-config-restart}' configmap/frontend-config
before=$(kubectl get pods -l app=frontend -o name)

show 'kubectl get pods -l app=frontend'
show "kubectl patch configmap frontend-config --type=merge \\
    -p '{\"data\": {\"config.cfg\": \"MSG=\\\"Welcome to Custom Controllers!\\\"\"}}'"
for pod in $before; do
	await --for=delete "$pod"
done
kubectl rollout status deployment frontend --timeout=10m >/dev/null
show 'kubectl get pods -l app=frontend'
show 'kubectl events --for configmap/frontend-config'
