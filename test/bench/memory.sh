#!/bin/sh
# Measures one replica of `setpoint run` with the flags of the Deployment: resident memory and CPU when
# idle, and with 5,000 parents and their 5,000 children. It needs make build, and takes two minutes.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
dir=$(mktemp -d)
trap 'kill $run $hook $cluster 2>/dev/null; wait; rm -rf "$dir"' EXIT
cd "$dir"
export KUBECONFIG="$dir/kubeconfig"
kubectl() { "$root/bin/setpoint" kubectl "$@"; }

cat >hook.py <<'HOOK'
import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

class Hook(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_POST(self):
        parent = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["parent"]
        child = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": parent["metadata"]["name"]}, "data": {"text": parent["spec"]["text"]}}
        body = json.dumps({"children": [child]}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *args):
        pass

server = ThreadingHTTPServer(("127.0.0.1", 0), Hook)
print(server.server_port, flush=True)
server.serve_forever()
HOOK
python3 hook.py >port & hook=$!
"$root/bin/setpoint" dev --cluster-only --data-dir data --kubeconfig kubeconfig >cluster.log 2>&1 & cluster=$!
until grep -q 'Ready after' cluster.log; do sleep 0.2; done
"$root/bin/setpoint-controller" run --leader-elect=true --log-level=info --log-format=json --address 127.0.0.1:0 2>run.log & run=$!
until grep -q '"msg":"ready"' run.log; do sleep 0.2; done

measure() {
  before=$(awk '{print $14 + $15}' /proc/$run/stat)
  sleep 20
  after=$(awk '{print $14 + $15}' /proc/$run/stat)
  awk -v what="$1" -v cpu=$((after - before)) '/VmRSS/ {rss = $2} /VmHWM/ {peak = $2}
    END {printf "%-16s %5.1f MiB resident, %5.1f MiB peak, %4.1f %% of a core\n", what, rss / 1024, peak / 1024, cpu / 20}' /proc/$run/status
}
measure idle
kubectl apply -f - >/dev/null <<CRD
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: texts.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {kind: Text, plural: texts}
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
CRD
kubectl wait --for=condition=Established crd/texts.example.com >/dev/null
kubectl apply -f - >/dev/null <<CONTROLLER
apiVersion: setpoint.dev/v1alpha1
kind: CompositeController
metadata: {name: texts}
spec:
  generateSelector: true
  parentResource: {apiVersion: example.com/v1, resource: texts}
  childResources: [{apiVersion: v1, resource: configmaps}]
  hooks: {sync: {webhook: {url: "http://127.0.0.1:$(cat port)"}}}
CONTROLLER
python3 -c 'for i in range(5000): print("apiVersion: example.com/v1\nkind: Text\nmetadata: {name: t%d, namespace: default}\nspec: {text: %s}\n---" % (i, "x" * 1000))' | kubectl create -f - >/dev/null
until [ "$(kubectl get configmaps -o name | wc -l)" -gt 5000 ]; do sleep 1; done
sleep 10
measure "10,000 objects"
