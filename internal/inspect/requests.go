package inspect

import (
	"slices"
	"time"
)

// Requests are those that a process has sent to the API server, and that it allowed.
type Requests struct {
	// Since is the start of the process.
	Since time.Time `json:"since"`
	// User is the process itself.
	User     string    `json:"user"`
	Requests []Request `json:"requests"`
}

// By returns the requests that were sent as a user.
func (r *Requests) By(user string) []Request {
	if user == r.User {
		user = ""
	}
	return slices.DeleteFunc(slices.Clone(r.Requests), func(one Request) bool { return one.User != user })
}

// Request counts requests that RBAC does not tell apart, but by the name of an object.
type Request struct {
	// User is the ServiceAccount that the process acted as; "" for its own.
	User  string `json:"user,omitempty"`
	Verb  string `json:"verb"`
	Group string `json:"group,omitempty"`
	// Resource is a plural, with the subresource after a slash.
	Resource string `json:"resource"`
	// Namespace is "" for requests to all namespaces and for cluster-scoped kinds.
	Namespace string    `json:"namespace,omitempty"`
	Count     uint64    `json:"count"`
	Last      time.Time `json:"last"`
}

// ManyNamespaces is the namespace of requests to more namespaces than are counted apart.
const ManyNamespaces = "*"
