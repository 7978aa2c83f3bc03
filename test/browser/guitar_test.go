package browser

import (
	"fmt"
	"strings"
	"testing"
)

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
