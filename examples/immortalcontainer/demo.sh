#!/bin/sh
# What `make demo` shows once everything runs: the example at work. Its
# environment is that of any command behind `setpoint dev … --`: KUBECONFIG
# names the control plane and SETPOINT the binary, which is a kubectl too.
set -eu

kubectl() { "$SETPOINT" kubectl "$@"; }
show() {
	echo
	echo "\$ kubectl $*"
	kubectl "$@"
}

kubectl wait --for=create pod/example-immortalpod --timeout=60s >/dev/null
kubectl wait --for=condition=Ready pod/example-immortalpod --timeout=60s >/dev/null
kubectl wait --for=jsonpath='{.status.currentPod}'=example-immortalpod immortalcontainer/example --timeout=60s >/dev/null

show get compositecontrollers
show get immortalcontainers
show get pods

before=$(kubectl get pod example-immortalpod -o jsonpath='{.metadata.uid}')
show delete pod example-immortalpod
echo "… and it comes back:"
kubectl wait --for=create pod/example-immortalpod --timeout=60s >/dev/null
kubectl wait --for=condition=Ready pod/example-immortalpod --timeout=60s >/dev/null
show get pods
after=$(kubectl get pod example-immortalpod -o jsonpath='{.metadata.uid}')
if [ "$before" = "$after" ]; then
	echo "the pod is still the old one ($before)" >&2
	exit 1
fi

cat <<END

That was a real API server, and a controller whose logic is one function in
examples/immortalcontainer/sync.py. To play with it:

  bin/setpoint dev examples/immortalcontainer

and in another terminal, with the KUBECONFIG it names:

  bin/setpoint kubectl get immortalcontainers,pods --watch
  bin/setpoint kubectl edit immortalcontainer example     # another image: a new pod
  \$EDITOR examples/immortalcontainer/sync.py              # saved, it runs at once

examples/immortalcontainer/README.md walks through all of it.
END
