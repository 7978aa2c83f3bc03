#!/bin/sh
# shellcheck source=examples/show.sh
. "$(dirname "$0")/../show.sh"

heading 'configmap-propagation: children that depend on other objects' \
	'Namespaces with a label have a copy of a ConfigMap. A second hook, customize, selects' \
	'the related objects of sync; when they change, Setpoint calls sync again.'
await --for=create configmap/settings --namespace team-red

show 'kubectl label namespace team-green settings=shared'
await --for=create configmap/settings --namespace team-green
show 'kubectl get configmaps --all-namespaces --field-selector metadata.name=settings'
show "kubectl patch configmap settings -p '{\"data\": {\"colour\": \"green\"}}'"
await --for=jsonpath='{.data.colour}'=green configmap/settings --namespace team-red
await --for=jsonpath='{.data.colour}'=green configmap/settings --namespace team-green
show "kubectl get configmap settings --namespace team-green -o 'jsonpath={.data}{\"\\n\"}'"
