#!/bin/sh
# Tests the operator on a real control plane: setpoint dev . -- sh test.sh
set -eu
kubectl() { "${SETPOINT:-setpoint}" kubectl "$@"; }
<%- if .Cluster%>
child() { kubectl --namespace=<%.ChildNamespace%> "$@"; }
<%- end%>

# The object of the sample has its children.<%range .Children%>
<%if $.Cluster%>child<%else%>kubectl<%end%> wait --for=create <%.Resource%>/example --timeout=60s
<%- end%>
<%- if .HasStatus%>
kubectl wait --for=jsonpath='{.status.ready}'=true <%.Plural%>.<%.Group%>/example --timeout=60s
<%- end%>

# A child that is deleted comes back.
<%- with index .Children 0%>
before=$(<%if $.Cluster%>child<%else%>kubectl<%end%> get <%.Resource%>/example --output=jsonpath='{.metadata.uid}')
<%if $.Cluster%>child<%else%>kubectl<%end%> delete <%.Resource%>/example --wait=false
for _ in $(seq 60); do
	after=$(<%if $.Cluster%>child<%else%>kubectl<%end%> get <%.Resource%>/example --output=jsonpath='{.metadata.uid}' --ignore-not-found)
	[ -n "$after" ] && [ "$after" != "$before" ] && break
	sleep 1
done
[ -n "$after" ] && [ "$after" != "$before" ]
<%- end%>
echo passed
