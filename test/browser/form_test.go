package browser

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"strings"
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

const guitarsPath = "/resources/guitars.kool.karmalabs.local"

// TestGuitar lists guitars, creates one, sees its review appear, edits and deletes it.
func TestGuitar(t *testing.T) {
	t.Parallel()
	c := sharedCluster(t)
	ns := c.namespace()
	p := newPage(t, sharedUI())

	p.open("/")
	p.click("Resources")
	p.at("/resources")
	p.audit()
	p.follow(guitarsPath)
	p.at(guitarsPath)
	p.see("stratocaster", "Fender", "this is a great instrument")
	p.audit()

	p.follow(guitarsPath + "/new")
	p.at(guitarsPath + "/new")
	p.see("Who built it.")
	p.audit()
	p.fill("name", "tele")
	p.fill("namespace", ns)
	p.fill("brand", "Fender")
	p.click("Create")

	// The review appears without a reload.
	object := guitarsPath + "/" + ns + "/tele"
	p.at(object)
	p.see("tele", "this is a great instrument")
	p.audit()
	p.open(guitarsPath + "?namespace=" + ns)
	p.see("tele", "this is a great instrument")
	p.follow(object)

	// Another brand without a review is reviewed again.
	p.follow(object + "/edit")
	p.at(object + "/edit")
	p.audit()
	p.fill("YAML", replaced(t, p.valueOf("YAML"), "brand: Fender", "brand: Epiphone", "review: true", "review: false"))
	p.click("Save")
	p.at(object)
	p.see("this one is decent, but there are better ones")
	var stored struct {
		Spec struct{ Brand, Comment string }
	}
	until(t, "store the change", waitTimeout, func() error {
		err := c.get(&stored, "guitars.kool.karmalabs.local", "tele", "-n", ns)
		if err == nil && (stored.Spec.Brand != "Epiphone" || !strings.Contains(stored.Spec.Comment, "decent")) {
			err = fmt.Errorf("it is %+v", stored)
		}
		return err
	})

	p.follow(object + "/delete")
	p.at(object + "/delete")
	p.audit()
	p.click("Delete tele")
	p.at(guitarsPath)
	p.see("tele deleted")
	p.notSeeIn("main table", "tele")
	until(t, "be gone", waitTimeout, func() error {
		if out, err := c.try("", "get", "guitars.kool.karmalabs.local", "-n", ns, "-o", "name"); err != nil || out != "" {
			return fmt.Errorf("there is %q (%w)", out, err)
		}
		return nil
	})
}

// replaced returns the text with each second word in place of the one before, which it has to have.
func replaced(t *testing.T, text string, pairs ...string) string {
	t.Helper()
	for i := 0; i < len(pairs); i += 2 {
		if !strings.Contains(text, pairs[i]) {
			t.Fatalf("there is no %q in\n%s", pairs[i], text)
		}
	}
	return strings.NewReplacer(pairs...).Replace(text)
}
