package admission

import (
	"slices"
	"strings"

	"github.com/setpoint-dev/setpoint/internal/object"
)

// identityFields lists the fields by which Kubernetes tells the elements of a list apart, the
// most telling first.
var identityFields = []string{"name", "key", "uid", "type", "mountPath", "devicePath", "containerPort", "port", "ip", "topologyKey"}

// identity is what an element of a list is known by, while it changes: the field and
// its value. It is empty for what is no object and for what has no such field.
func identity(element []byte) string {
	if kindOf(element) != '{' {
		return ""
	}
	rank, found := len(identityFields), []byte(nil)
	err := object.Members(element, func(quoted, value []byte) error {
		at := slices.Index(identityFields[:rank], string(object.Unquoted(quoted)))
		if kind := kindOf(value); at >= 0 && kind != '{' && kind != '[' {
			rank, found = at, value
		}
		return nil
	})
	if err != nil || found == nil {
		return ""
	}
	return identityFields[rank] + "=" + string(found)
}

// differentIdentity says that two elements have different names of one sort.
func differentIdentity(a, b []byte) bool {
	first, second := identity(a), identity(b)
	sort, _, _ := strings.Cut(first, "=")
	return first != second && sort != "" && strings.HasPrefix(second, sort+"=")
}
