package admission

import "github.com/setpoint-dev/setpoint/internal/object"

// Permission is some verbs on a resource, in a namespace or in all, and on one object if
// Name is set.
type Permission struct {
	Resource        object.Resource
	Verbs           []string
	Namespace, Name string
}

// Permissions returns the permissions to store certificates in a Secret and to register
// webhooks. The zero SecretRef is for certificates in memory.
func Permissions(secret SecretRef, namespace string) []Permission {
	var all []Permission
	if secret != (SecretRef{}) {
		all = append(all,
			Permission{Resource: secrets, Namespace: secret.Namespace, Verbs: []string{"create"}},
			Permission{Resource: secrets, Namespace: secret.Namespace, Name: secret.Name, Verbs: []string{"get", "list", "watch", "update"}},
		)
	}
	return append(all,
		Permission{Resource: mutatingResource, Verbs: []string{"get", "list", "watch", "create", "update", "delete"}},
		Permission{Resource: validatingResource, Verbs: []string{"get", "list", "watch", "create", "update", "delete"}},
		Permission{Resource: leases, Namespace: namespace, Verbs: []string{"create"}},
	)
}
