// Package objects has the pages of one object: what controllers did about it and why, what it owns, plans, and actions.
//
// Which runs explain what is decided in package timeline. To create, edit and delete objects belongs in package edit.
package objects

import (
	"k8s.io/apimachinery/pkg/util/cache"

	"github.com/setpoint-dev/setpoint/internal/dashboard/web"
)

// Pages are the pages of objects.
type Pages struct {
	plans web.Limiter
	// changes has the object changes of runs as a user may see them.
	changes *cache.LRUExpireCache
}

// Plans call hooks and list objects, so few run at a time: maxPlans of one user and maxTotalPlans of all.
const (
	maxPlans      = 2
	maxTotalPlans = 8
)

const maxCachedChanges = 500

// New returns the pages of objects.
func New() *Pages {
	p := &Pages{changes: cache.NewLRUExpireCache(maxCachedChanges)}
	p.plans.PerUser, p.plans.Total = maxPlans, maxTotalPlans
	return p
}

// Request is a request to a page of an object.
type Request struct {
	*web.Request
	pages *Pages
}

// Of returns a request to a page of an object.
func (p *Pages) Of(req *web.Request) *Request { return &Request{req, p} }
