#!/bin/sh
# shellcheck source=examples/show.sh
. "$(dirname "$0")/../show.sh"

heading 'exchangerate: a handler that calls an external service' \
	'An ExchangeRate has a ConfigMap with the rate. This demo requests it from a test service' \
	'every three seconds; its rates are set with PUT.'
rates=http://${SETPOINT_HOOKS##*rates.exchangerate=}
rates=${rates%%,*}
await --for=jsonpath='{.status.rate}' exchangerate/dollar

show 'kubectl get exchangerate dollar'
show "echo 1.2345 | kubectl --server=$rates replace --raw /USD -f -"
await --for=jsonpath='{.data.rate}'=1.2345 configmap/dollar
show 'kubectl get configmap dollar -o custom-columns=RATE:.data.rate,CURRENCY:.data.currency'

say 'The ConfigMap deleted by hand comes back, also while the service is out of order:'
show "echo 503 | kubectl --server=$rates replace --raw /trouble -f -"
await --for=condition=Handled=False exchangerate/dollar
show 'kubectl delete configmap dollar'
await_output 1.2345 'kubectl get configmap dollar -o jsonpath={.data.rate}'
show 'kubectl get configmap dollar -o custom-columns=RATE:.data.rate,CURRENCY:.data.currency'
say 'The object says what is wrong:'
show "kubectl get exchangerate dollar -o jsonpath='{.status.conditions[0].message}'"
echo
kubectl --server="$rates" delete --raw /trouble
await --for=condition=Handled exchangerate/dollar
