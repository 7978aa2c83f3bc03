// Package dashboard serves pages that show what controllers do and why, and that edit their
// objects.
//
// It contains the routes, the pages with their templates, styles and scripts, and live updates.
// The pages of one object are in objects, those that create, edit and delete in edit. What all
// pages share is in web, what processes say in processes, requests to the API server in userclient,
// sign-in in access, and schemas in form. The manager and the dev loop serve it.
//
// Each page is one template and one Go file with a function for each of its routes, which the
// package of the page lists. The API server authorizes everything: all requests are made as the user.
package dashboard

import (
	"cmp"
	"context"
	"embed"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/setpoint-dev/setpoint/internal/dashboard/access"
	"github.com/setpoint-dev/setpoint/internal/dashboard/edit"
	"github.com/setpoint-dev/setpoint/internal/dashboard/objects"
	"github.com/setpoint-dev/setpoint/internal/dashboard/processes"
	"github.com/setpoint-dev/setpoint/internal/dashboard/templates"
	"github.com/setpoint-dev/setpoint/internal/dashboard/userclient"
	"github.com/setpoint-dev/setpoint/internal/dashboard/web"
	"github.com/setpoint-dev/setpoint/internal/diff"
	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// Options configure a Server. Sources and Cluster are required.
type Options struct {
	// Sources returns the processes to show. It is called for each page, must not block, and
	// returns the same Source for the same process each time.
	Sources func(context.Context) []inspect.Source
	// Cluster makes requests as users.
	Cluster *userclient.Cluster
	// Access configures authentication.
	Access access.Options
	// Exits returns the processes whose supervisor knows that they ended; nil without one.
	Exits func() []processes.Exit
	// Version is the version of Setpoint.
	Version string
	// Log is slog.Default if nil.
	Log *slog.Logger
	// Now is time.Now if nil.
	Now func() time.Time
}

// Server serves the dashboard.
type Server struct {
	*web.Site
	pages

	edit *edit.Pages
}

// New returns a Server. It makes no request yet.
func New(o Options) (*Server, error) {
	if o.Sources == nil || o.Cluster == nil {
		return nil, errors.New("dashboard: Sources and Cluster are required")
	}
	o.Access.OnSessionEnd = o.Cluster.Drop
	if o.Now == nil {
		o.Now = time.Now
	}
	s := &Server{Site: &web.Site{
		Cluster: o.Cluster, Processes: processes.New(o.Sources, o.Exits, o.Now), Authenticator: access.New(o.Access, o.Cluster.Verify),
		Log: cmp.Or(o.Log, slog.Default()), Now: o.Now, Version: o.Version,
	}}
	s.streams.PerUser = maxStreams
	s.objects = objects.New()
	s.edit = edit.New(s.objects)
	var err error
	if s.Assets, err = web.LoadAssets(assetFiles); err != nil {
		return nil, fmt.Errorf("read assets: %w", err)
	}
	functions := s.Functions() // They link the assets.
	maps.Copy(functions, objects.Functions())
	if s.Templates, err = web.ParseTemplates(templates.Files, functions); err != nil {
		return nil, fmt.Errorf("parse templates: %w", err)
	}
	s.ServeRoutes(slices.Concat(s.routes(), s.objects.Routes(), s.edit.Routes()))
	return s, nil
}

//go:embed assets
var assetFiles embed.FS

// routes returns the routes of the pages, but those of one object.
func (s *Server) routes() []web.Route {
	route := func(pattern string, handle func(*request) error) web.Route {
		return web.Route{Pattern: pattern, Handle: func(r *web.Request) error { return handle(&request{r, &s.pages}) }}
	}
	return []web.Route{
		route("GET /{$}", showOverview),
		route("GET /controllers/{process}/{controller}", func(req *request) error { return req.showController(false) }),
		route("GET /controllers/{process}/{controller}/reviews", func(req *request) error { return req.showController(true) }),
		route("GET /controllers/{process}/{controller}/reviews/{id}", showReview),
		route("POST /controllers/{process}/{controller}/suspend", suspendController),
		route("POST /controllers/{process}/{controller}/resume", resumeController),
		route("POST /controllers/{process}/{controller}/reconcile", reconcileAll),
		route("GET /live", streamEvents),
		route("GET /palette", showPalette),
		route("GET /resources", showResources),
		route("GET /resources/{resource}", showKind),
	}
}

// NewForConfig is New with a client of a cluster that logs what users change.
func NewForConfig(config *rest.Config, o Options) (*Server, error) {
	client, err := userclient.NewCluster(config)
	if err != nil {
		return nil, fmt.Errorf("create a client for the users of the dashboard: %w", err)
	}
	client.OnWrite = writeLog{cmp.Or(o.Log, slog.Default())}.log
	o.Cluster = client
	return New(o)
}

type writeLog struct{ logger *slog.Logger }

// log logs what a user changed, or why it was refused.
func (l writeLog) log(user, verb string, ref object.Ref, err error, took time.Duration) {
	resource := schema.GroupResource{Group: ref.Group, Resource: ref.Plural}
	l.logger.Info("dashboard write", "user", user, "verb", verb, "resource", resource.String(),
		"namespace", ref.Namespace, "name", ref.Name, "took", took.String(), "refusal", redactedError(resource, err))
}

// maxLoggedError limits the bytes of a logged error, which may quote the whole request.
const maxLoggedError = 500

// redactedError returns an error for the log. One about a Secret may quote its values.
func redactedError(resource schema.GroupResource, err error) string {
	switch {
	case err == nil:
		return ""
	case resource == (schema.GroupResource{Resource: "secrets"}):
		return "not logged, since it may have values of the Secret"
	}
	return diff.Shorten(err.Error(), maxLoggedError)
}
