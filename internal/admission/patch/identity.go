package patch

import (
	"slices"
	"strings"

	"github.com/setpoint-dev/setpoint/internal/object"
)

// identityFields are the fields that identify elements of lists in Kubernetes, the most
// specific first.
var identityFields = []string{"name", "key", "uid", "type", "mountPath", "devicePath", "containerPort", "port", "ip", "topologyKey"}

// identity is the identifying field of an element and its value, or "".
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

// differentIdentity reports whether two elements have the same identifying field with
// different values.
func differentIdentity(a, b []byte) bool {
	first, second := identity(a), identity(b)
	sort, _, _ := strings.Cut(first, "=")
	return first != second && sort != "" && strings.HasPrefix(second, sort+"=")
}
