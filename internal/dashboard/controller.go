package dashboard

import (
	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// controllerPage is the data of a controller's page.
type controllerPage struct {
	controllerRow
	// Objects or Reviews are what the page lists; the other is nil.
	Objects *objectList
	Reviews *reviewList
	Actions []action
	// Caveat says what the process does not know about the controller.
	Caveat string
}

// HasTabs reports whether the controller manages objects and reviews requests.
func (p *controllerPage) HasTabs() bool { return p.Controller.Reviews && !p.reviewsOnly() }

// reviewsOnly reports whether the controller manages no objects.
func (p *controllerPage) reviewsOnly() bool {
	return p.AllReplicas || p.Controller.Reviews && p.Suspended
}

// ObjectCount returns the number of objects. A controller that watches none knows of none.
func (p *controllerPage) ObjectCount() int {
	if p.Objects != nil && p.Objects.Unwatched != "" {
		return p.Objects.Total
	}
	return p.Controller.Objects
}

// ReviewsURL returns the reviews of the controller.
func (p *controllerPage) ReviewsURL() string { return reviewsURL(p.Process, p.Name, object.Ref{}) }

// reviewCount is the number of reviews with one outcome since the process started.
type reviewCount struct {
	Outcome string
	Count   uint64
}

// ReviewCounts returns the number of reviews by outcome.
func (p *controllerPage) ReviewCounts() []reviewCount {
	counts := []reviewCount{{Outcome: inspect.ReviewAllowed}, {Outcome: inspect.ReviewMutated}, {Outcome: inspect.ReviewDenied},
		{Outcome: inspect.ReviewFailed}}
	for _, call := range p.Calls {
		for i := range counts {
			if counts[i].Outcome == call.Outcome {
				counts[i].Count += call.Count
			}
		}
	}
	return counts
}

func showController(req *request) error {
	return req.renderController(func(t *processInfo, c *inspect.Controller, p *controllerPage) (err error) {
		if p.reviewsOnly() {
			p.Reviews, err = req.listReviews(t.Source, c)
			return err
		}
		p.Objects, err = req.listObjects(t, c)
		return err
	})
}

// renderController renders the page of a controller with one of its lists.
func (req *request) renderController(load func(*processInfo, *inspect.Controller, *controllerPage) error) error {
	t, c, err := req.controllerInfo()
	if err != nil {
		return err
	}
	req.redactController(c)
	row := newControllerRow(c, t)
	data := &controllerPage{controllerRow: row, Caveat: t.Process.CaveatFor(c), Actions: req.controllerActions(c)}
	if data.Lost != nil {
		data.Caveat = ""
	}
	if err := load(t, c, data); err != nil {
		return err
	}
	if data.Reviews != nil {
		reviewing := *c
		reviewing.AllReplicas = true
		data.Caveat, data.Reviews.PerReplica = t.Process.CaveatFor(&reviewing), t.Process.LeaderElection
	}
	return req.render(page{Name: "controller", Title: row.ShortName, Section: "overview", Data: data})
}

// controller returns the controller named in the URL.
func (req *request) controller() (inspect.Source, *inspect.Controller, error) {
	t, c, err := req.controllerInfo()
	if err != nil {
		return nil, nil, err
	}
	return t.Source, c, nil
}

// controllerInfo returns the controller named in the URL, and its process.
func (req *request) controllerInfo() (*processInfo, *inspect.Controller, error) {
	process, name := req.path("process"), unslug(req.path("controller"))
	source, err := req.source(process)
	if err != nil {
		return nil, nil, err
	}
	t, err := req.fetchOne(source)
	if err != nil {
		return nil, nil, err
	}
	all := t.Controllers
	for i := range all {
		if all[i].Name == name && req.canSee(&all[i]) {
			return &t, &all[i], nil
		}
	}
	if err := req.accessErrors.first(); err != nil {
		return nil, nil, err
	}
	return nil, nil, notFound("Process %s runs no controller %s, or you cannot get it.", process, name)
}
