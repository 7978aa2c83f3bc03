#!/bin/sh
# shellcheck source=examples/show.sh
. "$(dirname "$0")/../show.sh"

heading 'rolling-set: a StatefulSet of your own' \
	'The hook says which pods there should be, and Setpoint replaces one at a time: the' \
	'next one when the last one is ready.'
await --for=jsonpath='{.status.readyReplicas}'=3 rollingset/web
await --for=condition=Updated rollingset/web

edit='[{"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": "nginx:1.28"}]'
show "kubectl patch rollingset web --type=json \\
    -p '$edit'"
show 'kubectl wait --for=condition=Updated rollingset/web --timeout=60s'
await --for=jsonpath='{.status.readyReplicas}'=3 rollingset/web
show 'kubectl get rollingset web'
show "kubectl get pods web-0 web-1 web-2 -o 'custom-columns=NAME:.metadata.name,IMAGE:.spec.containers[*].image'"

images=$(kubectl get pods web-0 web-1 web-2 -o 'jsonpath={.items[*].spec.containers[*].image}')
[ "$images" = 'nginx:1.28 nginx:1.28 nginx:1.28' ] || fail "the pods run $images"
