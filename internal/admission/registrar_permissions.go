package admission

import "github.com/setpoint-dev/setpoint/internal/object"

// Permission is some verbs on a resource: in a namespace, everywhere if it is
// empty, and on the object of that name alone, if there is one.
type Permission struct {
	Resource        object.Resource
	Verbs           []string
	Namespace, Name string
}

// Permissions are what keeping certificates in a Secret and registering webhooks
// take. With the zero SecretRef they are those of certificates in memory. Who
// creates cannot be limited to a name.
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
