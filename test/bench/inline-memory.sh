#!/bin/sh
# Measures the memory of `setpoint run` with inline hooks: one controller that is busy, and 100 of which
# 5 are. It counts the memory that the process and its children share with no other, 40 s after the
# start, when the children of controllers without work have ended. It needs make build, and takes four
# minutes. The argument is the language: JavaScript (the default) or Starlark.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
language=${1:-JavaScript}
dir=$(mktemp -d)
run= busy=
trap 'kill $run $busy $cluster 2>/dev/null || true; wait; rm -rf "$dir"' EXIT
cd "$dir"
export KUBECONFIG="$dir/kubeconfig"
kubectl() { "$root/bin/setpoint" kubectl "$@"; }

"$root/bin/setpoint" dev --cluster-only --data-dir data --kubeconfig kubeconfig >cluster.log 2>&1 & cluster=$!
until grep -q 'Ready after' cluster.log; do sleep 0.2; done

case $language in
JavaScript) source='export function sync({parent}) {
            const {name} = parent.metadata, {text} = parent.spec
            return {status: {}, children: [{apiVersion: "v1", kind: "ConfigMap", metadata: {name}, data: {text}}]}
          }' ;;
Starlark) source='def sync(request):
              parent = request["parent"]
              return {"status": {}, "children": [{"apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": parent["metadata"]["name"]}, "data": {"text": parent["spec"]["text"]}}]}' ;;
*) echo "unknown language $language" >&2; exit 2 ;;
esac

kubectl apply -f - >/dev/null <<CRD
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: texts.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {kind: Text, plural: texts}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
CRD
kubectl wait --for=condition=Established crd/texts.example.com >/dev/null

# controllers FIRST LAST creates controllers, each with the objects of one label.
controllers() {
  for i in $(seq "$1" "$2"); do
    cat <<CONTROLLER
apiVersion: setpoint.dev/v1alpha1
kind: CompositeController
metadata: {name: texts-$i}
spec:
  generateSelector: true
  parentResource: {apiVersion: example.com/v1, resource: texts, labelSelector: {matchLabels: {controller: "$i"}}}
  childResources: [{apiVersion: v1, resource: configmaps, updateStrategy: {method: InPlace}}]
  hooks:
    sync:
      inline:
        language: $language
        source: |
          $source
---
CONTROLLER
  done | kubectl apply -f - >/dev/null
}

# keep_busy LAST changes an object of each of the first controllers, again and again.
keep_busy() {
  round=0
  while :; do
    round=$((round + 1))
    for i in $(seq 1 "$1"); do
      for j in 1 2 3 4; do
        printf 'apiVersion: example.com/v1\nkind: Text\nmetadata: {name: t%s-%s, namespace: default, labels: {controller: "%s"}}\nspec: {text: "%s"}\n---\n' "$i" "$j" "$i" "$round"
      done
    done | kubectl apply -f - >/dev/null || true
  done
}

# private_kib adds up the private memory of the process and its children.
private_kib() {
  for pid in $run $(cat /proc/$run/task/*/children); do
    cat "/proc/$pid/smaps_rollup" 2>/dev/null
  done | awk '/^Private_(Clean|Dirty):/ {kib += $2} END {print kib}'
}

# measure NAME CONTROLLERS BUSY
measure() {
  "$root/bin/setpoint-controller" run --log-level=info --log-format=json --address 127.0.0.1:0 2>run.log & run=$!
  until grep -q '"msg":"ready"' run.log; do sleep 0.2; done
  controllers 1 "$2"
  kubectl wait --for=condition=Ready --timeout=2m --all compositecontrollers.setpoint.dev >/dev/null
  keep_busy "$3" & busy=$!
  sleep 40
  low= high=0
  for _ in $(seq 20); do
    now=$(private_kib)
    low=$(printf '%s\n' "${low:-$now}" "$now" | sort -n | head -1) high=$(printf '%s\n' "$high" "$now" | sort -n | tail -1)
    sleep 1
  done
  children=$(cat /proc/$run/task/*/children | wc -w)
  awk -v what="$1" -v low="$low" -v high="$high" -v children="$children" -v own="$(awk '/^Private_(Clean|Dirty):/ {kib += $2} END {print kib}' "/proc/$run/smaps_rollup")" \
    'BEGIN {printf "%-24s %5.1f to %5.1f MiB private in all, %5.1f MiB of them in the main process, %d children\n", what, low / 1024, high / 1024, own / 1024, children}'
  kill "$busy" "$run"
  wait "$busy" "$run" 2>/dev/null || true
  run= busy=
}
measure "1 controller, busy" 1 1
measure "100 controllers, 5 busy" 100 5
