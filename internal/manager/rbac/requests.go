package rbac

import (
	"cmp"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/rest"

	"github.com/setpoint-dev/setpoint/internal/inspect"
)

// maxRequests is the number of kinds of requests that are counted apart. Others are counted
// without their namespace.
const maxRequests = 4096

// Requests counts the requests of a process that the API server allowed, by what RBAC decides
// on. The zero value is not usable.
type Requests struct {
	since time.Time

	mu      sync.Mutex
	counted map[requestKey]*requestCount
}

// requestKey is what RBAC decides on, without the name of the object.
type requestKey struct{ user, verb, group, resource, namespace string }

type requestCount struct {
	count uint64
	last  time.Time
}

// NewRequests returns counters that are zero.
func NewRequests(now time.Time) *Requests {
	return &Requests{since: now, counted: map[requestKey]*requestCount{}}
}

// Config returns a configuration whose requests are counted.
func (r *Requests) Config(c *rest.Config) *rest.Config {
	counted := rest.CopyConfig(c)
	counted.Wrap(r.wrap)
	return counted
}

// wrap counts the requests of a transport.
func (r *Requests) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(request *http.Request) (*http.Response, error) {
		response, err := next.RoundTrip(request)
		if err == nil && response.StatusCode != http.StatusForbidden && response.StatusCode != http.StatusUnauthorized {
			r.observe(request, response.StatusCode, time.Now())
		}
		return response, err
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func (r *Requests) observe(request *http.Request, status int, now time.Time) {
	key, ok := requestKeyOf(request)
	if !ok {
		return // Discovery, which everybody may do.
	}
	keys := []requestKey{key}
	if key.verb == "patch" && status == http.StatusCreated {
		// The API server also reviews create when an apply creates the object.
		key.verb = "create"
		keys = append(keys, key)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, key := range keys {
		r.add(key, now)
		for _, needed := range impersonationOf(key) {
			r.add(needed, now)
		}
	}
}

func (r *Requests) add(key requestKey, now time.Time) {
	c := r.counted[key]
	if c == nil && len(r.counted) >= maxRequests {
		key.namespace = inspect.ManyNamespaces
		c = r.counted[key]
	}
	if c == nil {
		if len(r.counted) >= 2*maxRequests {
			return
		}
		c = &requestCount{}
		r.counted[key] = c
	}
	c.count, c.last = c.count+1, now
}

// impersonationOf returns what a process itself needs to send a request as a ServiceAccount: by
// the verb impersonate, or by constrained impersonation.
func impersonationOf(key requestKey) []requestKey {
	if key.user == "" {
		return nil
	}
	namespace, _, _ := strings.Cut(strings.TrimPrefix(key.user, accountPrefix), ":")
	on := key
	on.user, on.verb = "", constrainedVerb+key.verb
	return []requestKey{
		{verb: "impersonate", resource: "serviceaccounts", namespace: namespace},
		{verb: "impersonate:serviceaccount", group: constrainedAccounts.Group, resource: constrainedAccounts.Plural, namespace: namespace},
		on,
	}
}

// requestKeyOf reads a request as the API server does; false if it is for no resource.
func requestKeyOf(r *http.Request) (key requestKey, ok bool) {
	key.user = r.Header.Get("Impersonate-User")
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	// The address of a cluster may have a path itself.
	start := slices.IndexFunc(parts, func(part string) bool { return part == "api" || part == "apis" })
	switch {
	case start < 0:
		return key, false
	case parts[start] == "api" && len(parts) > start+2:
		parts = parts[start+2:]
	case parts[start] == "apis" && len(parts) > start+3:
		key.group, parts = parts[start+1], parts[start+3:]
	default:
		return key, false
	}
	if parts[0] == "namespaces" && len(parts) > 2 && parts[2] != "status" && parts[2] != "finalize" {
		key.namespace, parts = parts[1], parts[2:]
	}
	key.resource = parts[0]
	if len(parts) > 2 {
		key.resource += "/" + parts[2]
	}
	key.verb = verbOf(r, len(parts) > 1)
	return key, key.verb != ""
}

// verbOf returns the verb of a request for an object, or for a collection.
func verbOf(r *http.Request, named bool) string {
	switch r.Method {
	case http.MethodGet:
		watch := r.URL.Query().Get("watch")
		if watch == "1" || watch == "true" {
			return "watch"
		}
		if named {
			return "get"
		}
		return "list"
	case http.MethodPost:
		return "create"
	case http.MethodPut:
		return "update"
	case http.MethodPatch:
		return "patch"
	case http.MethodDelete:
		if named {
			return "delete"
		}
		return "deletecollection"
	}
	return ""
}

// Snapshot returns the counts, sorted.
func (r *Requests) Snapshot() inspect.Requests {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := inspect.Requests{Since: r.since, Requests: []inspect.Request{}}
	for key, c := range r.counted {
		all.Requests = append(all.Requests, inspect.Request{
			User: key.user, Verb: key.verb, Group: key.group, Resource: key.resource, Namespace: key.namespace, Count: c.count,
			Last: c.last,
		})
	}
	slices.SortFunc(all.Requests, func(a, b inspect.Request) int {
		return cmp.Or(cmp.Compare(a.User, b.User), cmp.Compare(a.Group, b.Group), cmp.Compare(a.Resource, b.Resource),
			cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Verb, b.Verb))
	})
	return all
}
