package admission

import "strings"

// names lists the fields by which Kubernetes tells the elements of a list apart, the
// most telling first.
var names = [...]string{"name", "key", "uid", "type", "mountPath", "devicePath", "containerPort", "port", "ip", "topologyKey"}

// identity is what an element of a list is known by, while it changes: the field and
// its value. It is empty for what is no object and for what has no such field.
func identity(element []byte) string {
	if kindOf(element) != '{' {
		return ""
	}
	f, err := fieldsOf(element)
	if err != nil {
		return ""
	}
	for _, name := range names {
		if value := f.value(name); value != nil && kindOf(value) != '{' && kindOf(value) != '[' {
			return name + "=" + string(value)
		}
	}
	return ""
}

// strangers says that two elements have different names of one sort.
func strangers(a, b []byte) bool {
	first, second := identity(a), identity(b)
	sort, _, _ := strings.Cut(first, "=")
	return first != second && sort != "" && strings.HasPrefix(second, sort+"=")
}
