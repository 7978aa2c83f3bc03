package dashboard

import (
	"github.com/setpoint-dev/setpoint/internal/dashboard/objects"
	"github.com/setpoint-dev/setpoint/internal/dashboard/web"
)

// pages is what the pages keep between requests.
type pages struct {
	streams web.Limiter
	objects *objects.Pages
}

type request struct {
	*web.Request
	*pages
}
