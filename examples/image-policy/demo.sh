#!/bin/sh
# shellcheck source=examples/show.sh
. "$(dirname "$0")/../show.sh"

heading 'image-policy: a hook that reviews pods before they are stored' \
	'In the namespace shop, images have to name a version, and pods have a label that says' \
	'whose they are. hook.py decides; its server, certificates and registration are ours.'
show 'kubectl run web --namespace shop --image=nginx' || true
show 'kubectl run web --namespace shop --image=nginx:1.28'
show 'kubectl get pods --namespace shop --label-columns=team'
say 'A Deployment reports why it has no pods:'
show 'kubectl create deployment blog --namespace shop --image=wordpress:latest'
await --for=condition=ReplicaFailure deployment/blog --namespace shop
show "kubectl get deployment blog --namespace shop \\
    -o 'jsonpath={.status.conditions[?(@.type==\"ReplicaFailure\")].message}{\"\\n\"}'"
