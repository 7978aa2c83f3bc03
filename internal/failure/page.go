package failure

import (
	"regexp"
	"strings"
)

// release is the version of a release, which has a tag. Builds of other commits have more in theirs.
var release = regexp.MustCompile(`^v\d+\.\d+\.\d+(-[a-z]+\.\d+)?$`)

// Page returns the address of what the documentation of a version says about a reason: what it means, and what to do.
// A version that is not released has that of the main branch. Reasons of others, such as hooks, have no page: "".
func Page(reason, version string) string {
	if !documented(reason) {
		return ""
	}
	if !release.MatchString(version) {
		version = "main"
	}
	return "https://github.com/setpoint-dev/setpoint/blob/" + version + "/docs/glossary.md#" + strings.ToLower(reason)
}
