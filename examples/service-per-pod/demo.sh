#!/bin/sh
# shellcheck source=examples/show.sh
. "$(dirname "$0")/../show.sh"

heading 'service-per-pod: something added to objects of others' \
	"A DecoratorController of Metacontroller, as it is: each pod of Kubernetes' own" \
	'StatefulSet db has a Service, for as long as an annotation asks for it.'
await --for=create service/db-0 service/db-1

show 'kubectl scale statefulset db --replicas=3'
await --for=create service/db-2
show 'kubectl get services db-0 db-1 db-2'
show 'kubectl annotate statefulset db service-per-pod.examples.setpoint.dev/ports-'
await --for=delete service/db-0 service/db-1 service/db-2
show 'kubectl get services'
