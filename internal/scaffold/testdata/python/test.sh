#!/bin/sh
# Tests the operator on a real control plane: setpoint dev . -- sh test.sh
set -eu
kubectl() { "${SETPOINT:-setpoint}" kubectl "$@"; }
example=shops.example.com/example
kubectl wait --for=create configmaps/example --timeout=60s
kubectl wait --for=jsonpath='{.status.ready}'=true "$example" --timeout=60s

# A child that is deleted comes back.
before=$(kubectl get configmaps/example --output=jsonpath='{.metadata.uid}')
kubectl delete configmaps/example --wait=false
for _ in $(seq 60); do
	after=$(kubectl get configmaps/example --output=jsonpath='{.metadata.uid}' --ignore-not-found)
	[ -n "$after" ] && [ "$after" != "$before" ] && break
	sleep 1
done
[ -n "$after" ] && [ "$after" != "$before" ]

# The children go with their parent.
kubectl delete "$example"
kubectl wait --for=delete configmaps/example --timeout=60s
echo passed
