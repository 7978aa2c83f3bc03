package rbac

import (
	"fmt"
	"slices"
	"strings"
)

// maxCommented is the number of controllers that a comment names.
const maxCommented = 4

// comment says which controllers need permissions for what: "shops: parents; teams: children,
// events".
func (p Permissions) comment() string {
	purposes := map[string][]string{}
	var controllers []string
	for _, n := range p {
		if n.use == (use{}) {
			continue
		}
		if !slices.Contains(controllers, n.use.controller) {
			controllers = append(controllers, n.use.controller)
		}
		if !slices.Contains(purposes[n.use.controller], n.use.purpose) {
			purposes[n.use.controller] = append(purposes[n.use.controller], n.use.purpose)
		}
	}
	slices.Sort(controllers)
	var parts []string
	for i, controller := range controllers {
		if i == maxCommented {
			parts = append(parts, fmt.Sprintf("and %d more", len(controllers)-i))
			break
		}
		slices.Sort(purposes[controller])
		part := strings.Join(purposes[controller], ", ")
		if controller != "" {
			part = controller + ": " + part
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, "; ")
}
