#!/bin/sh
# shellcheck source=examples/show.sh
. "$(dirname "$0")/../show.sh"

heading 'guitar: a handler, in a Go program of its own' \
	'main.go has one function, which is told of guitars that nobody has reviewed, and' \
	'installs the kind itself.'
reviewed='--for=jsonpath={.spec.review}=true guitar'
# shellcheck disable=SC2086 # Words, not one.
await $reviewed --all

show "cat $example/example.yaml | head -6"
show 'kubectl get guitars'
say 'What is reviewed is left alone, until its review is taken away:'
show "kubectl patch guitar homemade --type=merge -p '{\"spec\": {\"brand\": \"Taylor\", \"review\": false}}'"
# shellcheck disable=SC2086
await $reviewed/homemade
show 'kubectl get guitar homemade'
