package browser

import (
	_ "embed"
	"encoding/json"
	"testing"
)

//go:embed testdata/features.yaml
var featuresManifest string

const featuresPath = "/resources/features.forms.test"

// TestForm fills in a field of each schema type, with errors at first.
func TestForm(t *testing.T) {
	t.Parallel()
	c := sharedCluster(t)
	ns := c.namespace()
	c.apply(featuresManifest)
	c.established("features.forms.test")
	p := newPage(t, sharedUI())
	p.errors.allow("status 422|status of 422")

	p.open(featuresPath + "/new?namespace=" + ns)
	p.opened()
	p.see("What it is called.", "One of a few.", "Where it is.", "Default: carry on")
	p.audit()
	p.fill("name", "everything")
	p.fill("title", "Everything")
	p.fill("size", "1")
	p.fill("ratio", "0.75")
	p.fill("color", "blue")
	p.fill("loud", "true")
	p.fill("due", "2031-05-06T07:08:00Z")
	p.fill("port", "http")
	p.fill("city", "Ghent")
	p.fill("street", "Korenmarkt")
	p.fill("extra", "deep:\n  list: [1, two]\n")
	p.click("Add to tags")
	p.fillAt("#f-spec-tags-0", "first")
	p.click("Add to tags")
	p.fillAt("#f-spec-tags-1", "dropped")
	p.click("Add to tags")
	p.fillAt("#f-spec-tags-2", "last")
	p.click("Remove tags 2")
	p.click("Add to limits")
	p.fillIn("#f-spec-limits", "key", "memory")
	p.fillAt("#f-spec-limits-0", "1Gi")
	p.click("Add to parts")
	p.fillIn("#f-spec-parts", "name", "leg")
	p.fillIn("#f-spec-parts", "count", "4")
	p.audit()
	p.click("Create")

	// Errors of the API server are shown at the field, and the input is kept.
	p.seeIn(".notice", "what is loud has at least size 2")
	p.seeIn("#f-spec-size-error", "what is loud has at least size 2")
	p.opened()
	for label, want := range map[string]string{"title": "Everything", "ratio": "0.75", "city": "Ghent", "port": "http", "color": "blue"} {
		if got := p.valueOf(label); got != want {
			t.Errorf("after an error, %s holds %q, not %q", label, got, want)
		}
	}
	p.audit()
	p.fill("size", "2")
	p.click("Create")
	p.at(featuresPath + "/" + ns + "/everything")

	var stored struct{ Spec map[string]any }
	succeed(t, c.get(&stored, "features.forms.test", "everything", "-n", ns))
	got := valueOf(json.Marshal(stored.Spec))(t)
	const want = `{"address":{"city":"Ghent","street":"Korenmarkt"},"color":"blue","due":"2031-05-06T07:08:00Z","extra":{"deep":{"list":[1,"two"]}},` +
		`"limits":{"memory":"1Gi"},"loud":true,"motto":"carry on","parts":[{"count":4,"name":"leg"}],"port":"http","ratio":0.75,"size":2,` +
		`"tags":["first","last"],"title":"Everything"}`
	if string(got) != want {
		t.Errorf("stored is\n%s, not\n%s", got, want)
	}
}
