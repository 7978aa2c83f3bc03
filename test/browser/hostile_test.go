package browser

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
)

// hostileText is text that tries to run scripts.
const hostileText = `"'><img src=x onerror=window.__pwned=1><script>window.__pwned=1</script><svg onload=window.__pwned=1>{{.}}</textarea></title></script><a href="javascript:window.__pwned=1">x</a><iframe src="http://evil.example/"></iframe>`

// TestHostileContent shows hostile text everywhere: nothing runs, nothing is fetched, and the
// text is readable.
func TestHostileContent(t *testing.T) {
	t.Parallel()
	c := sharedCluster(t)
	ns := c.namespace()
	group := ns + ".test"
	url := hook(t, func(r hookRequest) (int, any) {
		if r.Parent.Spec["bad"] == true {
			return http.StatusInternalServerError, hostileText
		}
		child := map[string]any{
			"apiVersion": "v1", "kind": "ConfigMap",
			"metadata": map[string]any{"name": r.Parent.Metadata.Name, "annotations": map[string]string{"said": hostileText}},
			"data":     map[string]string{"script": hostileText},
		}
		return http.StatusOK, map[string]any{
			"status": map[string]any{"said": hostileText}, "children": []any{child},
			"conditions": []any{map[string]any{"type": "Said", "status": "True", "reason": "Said", "message": hostileText}},
			"events":     []any{map[string]any{"type": "Normal", "reason": "Said", "message": hostileText}},
		}
	})
	c.kind(group, "Trap", url)
	c.kubectl("patch", "crd", "traps."+group, "--type=json", "-p", quote([]any{
		map[string]any{"op": "add", "path": "/spec/versions/0/schema/openAPIV3Schema/description", "value": hostileText},
		map[string]any{"op": "add", "path": "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties", "value": map[string]any{
			"lure": map[string]any{"type": "string", "description": hostileText, "enum": []string{"plain", hostileText}},
		}},
		map[string]any{"op": "replace", "path": "/spec/versions/0/additionalPrinterColumns", "value": []any{
			map[string]any{"name": hostileText, "type": "string", "jsonPath": ".spec.text", "description": hostileText},
		}},
	}))
	for _, name := range []string{"good", "bad"} {
		trap, err := json.Marshal(map[string]any{
			"apiVersion": group + "/v1", "kind": "Trap",
			"metadata": map[string]any{
				"name": name, "namespace": ns, "annotations": map[string]string{"said": hostileText},
			},
			"spec": map[string]any{"text": hostileText, "bad": name == "bad"},
		})
		succeed(t, err)
		c.apply(string(trap))
	}

	until(t, "have the child", waitTimeout, func() error {
		_, err := c.try("", "get", "configmap", "good", "-n", ns)
		return err
	})

	p := newPage(t, sharedUI())
	controller := "/controllers/setpoint/compositecontroller.setpoint.dev~" + group
	resources := "/resources/traps." + group
	for _, path := range []string{
		"/", controller, "/resources", resources, resources + "/new", resources + "/" + ns + "/good", resources + "/" + ns + "/bad",
		resources + "/" + ns + "/good/timeline", resources + "/" + ns + "/good/yaml", resources + "/" + ns + "/good/edit",
		resources + "/" + ns + "/good/plan", resources + "/" + ns + "/bad/plan", resources + "/" + ns + "/good/delete",
		"/resources/configmaps/" + ns + "/good",
	} {
		p.open(path)
		p.opened()
		p.intact(path)
	}
	p.open(resources + "/" + ns + "/bad")
	p.see("<script>window.__pwned=1</script>")
	p.open(resources)
	p.see("<script>window.__pwned=1</script>")

	// The same holds for URLs.
	p.errors.allow("status 4|status of 4")
	for _, path := range []string{
		"/resources?text=%22%3E%3Cscript%3Ewindow.__pwned=1%3C/script%3E", "/%3Cscript%3Ewindow.__pwned=1%3C/script%3E",
		resources + "/" + ns + "/%3Cimg%20src=x%20onerror=window.__pwned=1%3E", "/signin?return=//evil.example/", "/signin?return=javascript:window.__pwned=1",
	} {
		p.open(path)
		p.intact(path)
	}
}

// opened expands all details.
func (p *page) opened() {
	p.t.Helper()
	p.loaded()
	_ = must[any](p, "void document.querySelectorAll('details').forEach(d => d.open = true)")
}

// intact checks that no script ran and the page is unchanged.
func (p *page) intact(path string) {
	p.t.Helper()
	state := must[struct {
		Pwned  bool
		Frames int
		Links  int
		Main   int
		At     string
	}](p, `({pwned: "__pwned" in window, frames: document.querySelectorAll("iframe, img[src=x], svg[onload]").length,
		links: document.querySelectorAll("a[href^='javascript:']").length,
		main: document.querySelectorAll("main").length, at: location.origin})`)
	if want := fmt.Sprintf("{Pwned:false Frames:0 Links:0 Main:1 At:%s}", p.base); fmt.Sprintf("%+v", state) != want {
		p.t.Errorf("%s: %+v, not %s", path, state, want)
	}
}
