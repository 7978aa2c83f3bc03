#!/bin/sh
# shellcheck source=examples/show.sh
. "$(dirname "$0")/../show.sh"

heading 'crd-roles: something added to a built-in kind, by a hook in Go' \
	'A CRD with a label gets roles to view and to edit its objects, which become part of' \
	"the cluster's own: Jane, who may view things, may view cats, until the label goes."
list='kubectl auth can-i list cats.example.com --as=jane'
create='kubectl auth can-i create cats.example.com --as=jane'
await --for=create clusterrole/cats.example.com-view clusterrole/cats.example.com-edit

show 'kubectl create rolebinding jane --clusterrole=view --user=jane'
await_output yes "$list"
show "$list"
await_output no "$create"
show "$create" || true
show 'kubectl label crd cats.example.com crd-roles.examples.setpoint.dev/wanted-'
await --for=delete clusterrole/cats.example.com-view clusterrole/cats.example.com-edit
await_output no "$list"
show "$list" || true
