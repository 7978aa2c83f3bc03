package browser

import (
	"testing"
)

// TestTwoBrowsers has two people look at the same guitars: what one does, the other
// sees, without loading anything again.
func TestTwoBrowsers(t *testing.T) {
	t.Parallel()
	c := sharedCluster(t)
	ns := c.namespace()
	ann, bob := newPage(t, sharedUI()), newPage(t, sharedUI())
	list := guitarsPath + "?namespace=" + ns
	bob.open(list)
	bob.miss("jazzmaster")

	ann.open(guitarsPath + "/new?namespace=" + ns)
	ann.fill("name", "jazzmaster")
	ann.fill("brand", "Gretsch")
	ann.click("Create")
	bob.see("jazzmaster", "Gretsch", "this one is decent, but there are better ones")

	object := guitarsPath + "/" + ns + "/jazzmaster"
	bob.follow(object)
	bob.at(object)
	ann.open(object + "/edit")
	ann.fill("brand", "Martin")
	ann.clickIn("#f-spec-review", "false")
	ann.click("Save")
	bob.see("this is a great instrument")

	bob.open(object + "/delete")
	bob.click("Delete jazzmaster")
	bob.at(guitarsPath)
	ann.see("gone")
	ann.open(list)
	ann.miss("jazzmaster")
}
