package dashboard

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/validate/content"

	"github.com/setpoint-dev/setpoint/internal/dashboard/objects"
	"github.com/setpoint-dev/setpoint/internal/dashboard/processes"
	"github.com/setpoint-dev/setpoint/internal/dashboard/web"
	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/object"
)

type reviewList struct {
	*web.List[reviewRow]
	Filter inspect.ReviewFilter
	// Reviewed is the number of all reviews that the user may see.
	Reviewed int
	// Partial reports whether reviews are hidden because the user may not read their objects.
	Partial bool
	// PerReplica reports whether other replicas may have served other reviews.
	PerReplica bool
	// Kinds are the kinds of the reviewed objects.
	Kinds []object.Kind
}

type reviewRow struct {
	inspect.Run
	*inspect.Review
	Webhook, URL string
}

// listReviews returns the reviews that the URL selects, of objects that the user may read.
func (req *request) listReviews(t *processes.Info, c *inspect.Controller) (*reviewList, error) {
	runs, err := inspect.QueryOne(req.Context(), req.Processes.Timeouts, t.Source,
		func(ctx context.Context, s inspect.Source) ([]inspect.Run, error) {
			return s.Reviews(ctx, c.Name, false)
		})
	if err != nil {
		return nil, err
	}
	seen, hidden := inspect.VisibleReviews(runs, req.CanRead)
	l := &reviewList{
		Filter: req.reviewFilter(), Reviewed: len(seen), Partial: hidden, PerReplica: t.Process.LeaderElection, Kinds: reviewedKinds(seen),
	}
	var rows []reviewRow
	for _, run := range seen {
		if l.Filter.Match(&run) {
			rows = append(rows, newReviewRow(run))
		}
	}
	l.List = web.NewList(req.Request, rows, reviewSpec())
	l.Total = l.Reviewed
	return l, nil
}

func reviewSpec() *web.ListSpec[reviewRow] {
	return &web.ListSpec[reviewRow]{
		Target: "controller", One: "review", More: "reviews", Label: "Results", Parameter: "result", States: inspect.ReviewOutcomes(),
		Default: "time",
		State:   func(r *reviewRow) string { return r.Outcome },
		Columns: []web.ListColumn[reviewRow]{
			{Name: "Request", Sort: "name", Compare: web.CompareText(func(r *reviewRow) string {
				return r.Object.Namespace + "/" + r.ReviewedName()
			})},
			{Name: "Result", Sort: "result", Compare: func(a, b *reviewRow) int {
				return cmp.Compare(slices.Index(inspect.ReviewOutcomes(), a.Outcome), slices.Index(inspect.ReviewOutcomes(), b.Outcome))
			}},
			{Name: "User", Sort: "user", Compare: web.CompareText(func(r *reviewRow) string { return r.User })},
			{Name: "Duration", Sort: "duration", Class: "number",
				Compare: web.CompareMost(func(r *reviewRow) time.Duration { return r.Took })},
			{Name: "When", Sort: "time", Compare: web.CompareLatest(func(r *reviewRow) time.Time { return r.Began })},
		},
	}
}

func reviewedKinds(runs []inspect.Run) (kinds []object.Kind) {
	for i := range runs {
		kind := runs[i].Object.Kind
		if !slices.ContainsFunc(kinds, func(k object.Kind) bool { return k.GroupKind() == kind.GroupKind() }) {
			kinds = append(kinds, kind)
		}
	}
	return kinds
}

func newReviewRow(run inspect.Run) reviewRow {
	return reviewRow{Run: run, Review: run.Review(), Webhook: run.Steps[0].Call.Name, URL: reviewURL(&run)}
}

func (r reviewRow) Message() string { return r.ReviewMessage() }

// HasPage reports whether the object may have a page. One that was denied may have any name.
func (r reviewRow) HasPage() bool {
	name := r.Object.Name
	return name != "" && len(name) <= maxNameLength && len(content.IsPathSegmentName(name)) == 0
}

// maxNameLength is the length of the longest name that the API server stores.
const maxNameLength = 253

func (r reviewRow) IsBad() bool {
	return r.Outcome == inspect.ReviewDenied || r.Outcome == inspect.ReviewFailed
}

func (req *request) reviewFilter() inspect.ReviewFilter {
	f := inspect.ReviewFilter{
		Namespace: req.Query("ns"), ObjectName: req.Query("name"), User: req.Query("user"), Text: strings.ToLower(req.Query("q")),
	}
	f.Kind.Kind, f.Kind.Group, _ = strings.Cut(req.Query("kind"), ".")
	if operation := req.Query("operation"); slices.Contains(reviewOperations(), operation) {
		f.Operation = operation
	}
	return f
}

// reviewOperations returns the operations to filter by.
func reviewOperations() []string { return []string{"create", "update", "delete", "connect"} }

func (*reviewList) Operations() []string { return reviewOperations() }

func (l *reviewList) KindOptions() []kindOption {
	return kindOptions(l.Kinds, l.Filter.Kind.Group, l.Filter.Kind.Kind)
}

func reviewURL(run *inspect.Run) string {
	return web.ControllerURL(run.Process, run.Controller) + "/reviews/" + strconv.FormatUint(run.ID, 10)
}

// showReview shows one review. Unlike the page of a run it needs no object: one whose creation
// was denied may never have got a name.
func showReview(req *request) error {
	t, c, err := req.Controller(req.Path("process"), req.Path("controller"))
	if err != nil {
		return err
	}
	loader := req.objects.Of(req.Request).NewLoader()
	id, _ := strconv.ParseUint(req.Path("id"), 10, 64) // No review has the ID 0.
	run, err := loader.Load(t.Source.Name(), id)
	if err != nil {
		return err
	}
	if run.Controller != c.Name || run.Review() == nil || !req.CanRead(run.Object.Kind, run.Object.Namespace) {
		return web.NotFound("Review %d of %s is no longer in memory, or you cannot get its object.", id, processes.ShortName(c.Name))
	}
	shown, err := loader.NewRunPage(&objects.Object{Ref: run.Object}, &run, reviewURL(&run))
	if err != nil {
		return err
	}
	if shown.Body != nil && req.IsFragment() {
		return req.RenderFragment("review", "run-body", shown.Body)
	}
	shown.SetSteps()
	p := &reviewPage{RunPage: *shown, Row: newReviewRow(run)}
	return req.Render(web.Page{Name: "review", Title: p.Entry.Headline, Section: "overview", Static: true, Data: p})
}

type reviewPage struct {
	objects.RunPage
	Row reviewRow
}
