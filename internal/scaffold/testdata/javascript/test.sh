#!/bin/sh
# Tests the operator on a real control plane: setpoint dev . -- sh test.sh
set -eu
kubectl() { "${SETPOINT:-setpoint}" kubectl "$@"; }

# The object of the sample has its children.
kubectl wait --for=create configmaps/example --timeout=60s
kubectl wait --for=jsonpath='{.status.ready}'=true shops.example.com/example --timeout=60s

# A child that is deleted comes back.
before=$(kubectl get configmaps/example --output=jsonpath='{.metadata.uid}')
kubectl delete configmaps/example --wait=false
for _ in $(seq 60); do
	after=$(kubectl get configmaps/example --output=jsonpath='{.metadata.uid}' --ignore-not-found)
	[ -n "$after" ] && [ "$after" != "$before" ] && break
	sleep 1
done
[ -n "$after" ] && [ "$after" != "$before" ]
echo passed
