#!/bin/sh
# What `make demo` shows before Kubernetes is compiled, which takes many minutes: an
# operator at work, by the binary without a control plane. What is compiled for that one,
# two fifths of the work, is a part of the other. Where there has been a build, or most
# of Kubernetes is compiled, this does nothing.
#
# usage: first-look.sh [FLAG of go build…]
set -eu
# shellcheck source=examples/show.sh
. examples/show.sh

[ ! -e bin/setpoint ] || exit 0
# A question is no reason to fetch modules: without them there is no answer.
kubernetes=$(GOPROXY=off go -C controlplane list -f '{{not .Stale}}' k8s.io/kubernetes/cmd/kube-apiserver/app 2>/dev/null) || true
[ "$kubernetes" != true ] || exit 0

SETPOINT=bin/setpoint-light
tools/build-with-progress.sh "$SETPOINT" controlplane github.com/setpoint-dev/setpoint/cmd/setpoint "$@"

heading 'First, an operator without a cluster' \
	'Kubernetes is compiled next, once. What needs none is there: setpoint render calls' \
	'the function of a manifest, and setpoint test explores what it leads to in every' \
	'order of events, edits and crashes.'
operator=examples/immortalcontainer
show "sed -n '/export function/,/^--/p' $operator/inline.yaml"
changed='It fails: has the function been changed? The demo goes on.'
show "setpoint render $operator/inline.yaml" || say "$changed"
show "setpoint test $operator/inline.yaml $operator/cases.yaml $operator/exploration.yaml" || say "$changed"
say 'While the control plane is compiled, change the function, and test it in a second terminal:' \
	"  $SETPOINT test $operator/inline.yaml $operator/cases.yaml"
