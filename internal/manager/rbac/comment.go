package rbac

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/setpoint-dev/setpoint/internal/lists"
)

// maxCommented is the number of controllers that a comment names.
const maxCommented = 4

// comment says which controllers need permissions for what: "shops: parents; teams: children,
// events".
func (p Permissions) comment() string {
	purposes := map[string][]string{}
	for _, n := range p {
		if n.use != (use{}) {
			purposes[n.use.controller] = lists.Union(purposes[n.use.controller], []string{n.use.purpose})
		}
	}
	controllers := slices.Sorted(maps.Keys(purposes))
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
