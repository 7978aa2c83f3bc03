package object

// Resource is one kind of object as an API server serves it.
type Resource struct {
	Group, Version string
	// Plural is the name in the path, such as "deployments".
	Plural string
	Kind   string
	// Namespaced says that its objects live in namespaces.
	Namespaced bool
	// Status says that it has a status subresource.
	Status bool
	// Custom says that a CustomResourceDefinition defines it.
	Custom bool
}

// APIVersion is "v1" or "apps/v1".
func (r Resource) APIVersion() string {
	if r.Group == "" {
		return r.Version
	}
	return r.Group + "/" + r.Version
}

// GroupKind identifies the kind whatever its version.
func (r Resource) GroupKind() GroupKind { return GroupKind{Group: r.Group, Kind: r.Kind} }

// String is "deployments.apps/v1" or "pods.v1", for messages.
func (r Resource) String() string {
	if r.Group == "" {
		return r.Plural + "." + r.Version
	}
	return r.Plural + "." + r.Group + "/" + r.Version
}

// Path is the URL path of a collection, or of one object when name is set.
func (r Resource) Path(namespace, name string) string {
	path := "/api/" + r.Version
	if r.Group != "" {
		path = "/apis/" + r.Group + "/" + r.Version
	}
	if r.Namespaced && namespace != "" {
		path += "/namespaces/" + namespace
	}
	path += "/" + r.Plural
	if name != "" {
		path += "/" + name
	}
	return path
}

// GroupKind is a kind without its version.
type GroupKind struct{ Group, Kind string }

// GroupOf is the group of an apiVersion: "" of "v1", "apps" of "apps/v1".
func GroupOf(apiVersion string) string {
	for i := range len(apiVersion) {
		if apiVersion[i] == '/' {
			return apiVersion[:i]
		}
	}
	return ""
}

// GroupKind of the object.
func (o *Object) GroupKind() GroupKind {
	name := o.typeName.Value()
	return GroupKind{Group: GroupOf(name.apiVersion), Kind: name.kind}
}
