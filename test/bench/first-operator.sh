#!/bin/sh
# Times the operator of docs/getting-started.md: from an empty folder with that one file, without a
# cluster, until its team is ready and has its namespace and its quota. It needs make build.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
awk '/^```yaml$/ {inside = 1; next} /^```$/ {if (inside) exit} inside' "$root/docs/getting-started.md" >teams.yaml
export setpoint="$root/bin/setpoint"
start=$(date +%s%N)
"$setpoint" dev --kubeconfig teams.kubeconfig teams.yaml -- sh -euc '
  until "$setpoint" kubectl wait --for=jsonpath="{.status.ready}"=true --timeout=60s team/red 2>/dev/null; do sleep 0.1; done
  "$setpoint" kubectl get quota -n red team
  echo "reconciled '"$(wc -l <teams.yaml)"' lines after $(( ($(date +%s%N) - '"$start"') / 1000000 )) ms"
' 2>dev.log || { cat dev.log >&2; exit 1; }
