// Package edit has the pages that create, edit and delete objects, with what each would do before it does it.
//
// Forms are built in package form. Plans are those of package objects.
package edit

import (
	"github.com/setpoint-dev/setpoint/internal/dashboard/objects"
	"github.com/setpoint-dev/setpoint/internal/dashboard/web"
)

// Pages are the pages that change objects.
type Pages struct {
	// objects plans for objects, and knows their states.
	objects  *objects.Pages
	digester secretDigester
	// drafts limits the forms that are processed.
	drafts web.Limiter
}

// maxDrafts is the number of forms that one user may send at a time, maxActiveDrafts that of all
// users. A form takes several times the memory of its object.
const (
	maxDrafts       = 3
	maxActiveDrafts = 4
)

// New returns the pages that change objects. The pages of objects plan for them.
func New(objects *objects.Pages) *Pages {
	p := &Pages{objects: objects, digester: newSecretDigester()}
	p.drafts.PerUser, p.drafts.Total = maxDrafts, maxActiveDrafts
	return p
}

type request struct {
	*web.Request
	pages *Pages
}
