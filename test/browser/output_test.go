package browser

import (
	"fmt"
	"testing"
)

const printingController = `apiVersion: setpoint.dev/v1alpha1
kind: CompositeController
metadata: {name: %[1]s}
spec:
  parentResource: {apiVersion: %[1]s/v1, resource: printers}
  childResources:
  - {apiVersion: v1, resource: configmaps, updateStrategy: {method: InPlace}}
  generateSelector: true
  hooks:
    sync:
      inline:
        language: JavaScript
        source: |
          export function sync({parent}) {
            console.log("size is", parent.spec.size);
            return {children: [{apiVersion: "v1", kind: "ConfigMap", metadata: {name: parent.metadata.name}}]};
          }
`

// TestOutput reads what a hook printed, next to the run that printed it.
func TestOutput(t *testing.T) {
	t.Parallel()
	c := sharedCluster(t)
	ns := c.namespace()
	group := ns + ".test"
	c.apply(fmt.Sprintf(crdManifest, "printers", group, "Printer"))
	c.established("printers." + group)
	c.apply(fmt.Sprintf(printingController, group))
	t.Cleanup(func() { _, _ = c.try("", "delete", "compositecontroller.setpoint.dev", group, "--wait=false") })
	c.apply(fmt.Sprintf("{apiVersion: %[1]s/v1, kind: Printer, metadata: {name: a, namespace: %[2]s}, spec: {size: 42}}", group, ns))

	p := newPage(t, sharedUI())
	p.open("/resources/printers." + group + "/" + ns + "/a")
	p.see("Created ConfigMap a")
	p.click("Details of this run")
	p.see("Output", "size is 42")
	p.audit()
}
