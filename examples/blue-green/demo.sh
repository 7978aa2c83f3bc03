#!/bin/sh
# shellcheck source=examples/show.sh
. "$(dirname "$0")/../show.sh"

heading 'blue-green: an update in steps' \
	'A new image starts next to the current one. When all of its replicas are available,' \
	'the Service selects it, and the response of the hook records an event.'
await --for=jsonpath='{.status.availableReplicas}'=2 bluegreendeployment/shop

edit='[{"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": "nginx:1.28"}]'
show "kubectl patch bluegreendeployment shop --type=json \\
    -p '$edit'"
await --for=jsonpath='{.status.active}'=green bluegreendeployment/shop
await --for=jsonpath='{.spec.selector.examples\.setpoint\.dev/colour}'=green service/shop
await --for=jsonpath='{.spec.replicas}'=0 deployment/shop-blue
await --for=delete pods -l examples.setpoint.dev/colour=blue
show 'kubectl get bluegreendeployment shop'
show 'kubectl get deployments shop-blue shop-green'
await_output Switched 'kubectl get events --field-selector=involvedObject.name=shop,reason=Switched -o jsonpath={.items[*].reason}'
show 'kubectl events --for bluegreendeployment/shop'
