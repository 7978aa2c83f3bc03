package objects

import (
	"encoding/json"
	"net/url"
	"regexp"
	"strconv"
	"strings"

	"github.com/setpoint-dev/setpoint/internal/dashboard/timeline"
	"github.com/setpoint-dev/setpoint/internal/dashboard/web"
	"github.com/setpoint-dev/setpoint/internal/diff"
	"github.com/setpoint-dev/setpoint/internal/inspect"
)

// RunPage is the data of a run's page.
type RunPage struct {
	*Object
	Entry entry
	Steps []stepView
	// Body is the selected request or response; nil for none.
	Body   *Body
	Export runExport
}

type stepView struct {
	inspect.Step
	// Bodies are the requests and responses to open.
	Bodies []bodyLink
	// RepeatReason is why the run repeated an earlier call. Revision labels the revision that
	// was called, if there are several.
	RepeatReason, Revision string
	// PreviousURL is the run with the previous call; "" for none.
	PreviousURL string
	Fault       *fault
}

type bodyLink struct {
	Name, URL, ID string
	Bytes         int
	Open          bool
	Body          *Body
}

// Body is a request or response as text, or as a diff with the previous one.
type Body struct {
	ID        string
	Text      string
	Truncated bool
	Diff      *diff.Text
	// Hidden reports that the diff has objects of which the user may know only the names.
	Hidden bool
	// EmptyReason is why there is no text.
	EmptyReason string
}

const maxBodyBytes = 512 << 10

func showRun(req *Request) error {
	s, err := req.loadObject()
	if err != nil {
		return err
	}
	loader := req.NewLoader()
	run, err := req.findRun(loader, s, req.Path("id"))
	if err != nil {
		return err
	}
	p, err := loader.NewRunPage(s, &run, "")
	if err != nil {
		return err
	}
	if p.Body != nil && req.IsFragment() {
		return req.RenderFragment("object_run", "run-body", p.Body)
	}
	loader.addTriggers(s, &p.Entry)
	p.SetSteps()
	p.Export = exportOf(s, &run)
	if req.IsFragment() {
		return req.RenderFragment("object_run", "run-detail", p)
	}
	return req.Render(web.Page{
		Name: "object_run", Title: "A run of " + s.Kind.Kind + " " + s.Name, Section: "resources", Static: true, Data: p,
	})
}

// NewRunPage returns the page of a run with the request or response that the URL selects. The URL of the page is at, or that of
// the run if at is "".
func (l *Loader) NewRunPage(s *Object, run *inspect.Run, at string) (p *RunPage, err error) {
	p = &RunPage{Object: s, Entry: newEntry(s, timeline.Entry{Run: *run})}
	p.Entry.page = at
	if shown := l.Query("show"); shown != "" {
		p.Body, err = l.body(run, l.Query("step"), shown)
	}
	return p, err
}

// SetSteps shows the steps, and the selected body in its place.
func (p *RunPage) SetSteps() {
	p.Steps = stepViews(&p.Entry)
	if p.Body == nil {
		return
	}
	for i := range p.Steps {
		for k := range p.Steps[i].Bodies {
			if link := &p.Steps[i].Bodies[k]; link.ID == p.Body.ID {
				link.Open, link.Body = true, p.Body
			}
		}
	}
}

func stepViews(e *entry) []stepView {
	views := make([]stepView, 0, len(e.Steps))
	for i, step := range e.Steps {
		view := stepView{Step: step}
		switch {
		case step.Call != nil:
			view.RepeatReason, view.Revision = timeline.RepeatLabel(e.Steps, i), timeline.RevisionLabel(e.Steps, step.Call)
			view.Bodies = bodyLinks(e, i, view.RepeatReason != "" || step.Call.Previous != 0)
			if step.Call.Error != "" {
				view.Fault = describeFault(step.Call.Error, step.Call.Fault, runFailedTitle)
			}
			if step.Call.Previous != 0 && view.RepeatReason == "" {
				view.PreviousURL = runURL(e.of, e.Process, step.Call.Previous)
			}
		case step.Write != nil && step.Write.Error != "":
			view.Fault = describeFault(step.Write.Error, step.Write.Fault, runFailedTitle)
		}
		views = append(views, view)
	}
	return views
}

var bodyParts = []struct {
	name, label string
	of          func(*inspect.Call) json.RawMessage
}{
	{"request", "Request", func(call *inspect.Call) json.RawMessage { return call.Request }},
	{"response", "Response", func(call *inspect.Call) json.RawMessage { return call.Response }},
}

// diffSuffix follows the name of a part to show its diff with the previous call.
const diffSuffix = "-diff"

func bodyLinks(e *entry, step int, compared bool) []bodyLink {
	call := e.Steps[step].Call
	if call.Dropped {
		return nil
	}
	var links []bodyLink
	add := func(label, show string, bytes int) {
		query := url.Values{"in": {e.Process}, "step": {strconv.Itoa(step)}, "show": {show}}
		at, _, _ := strings.Cut(e.URL(), "?")
		links = append(links, bodyLink{Name: label, URL: at + "?" + query.Encode(), ID: bodyID(&e.Run, step, show), Bytes: bytes})
	}
	for _, part := range bodyParts {
		size := len(part.of(call))
		if size == 0 {
			continue
		}
		add(part.label, part.name, size)
		if compared {
			add(part.label+", diff with the previous one", part.name+diffSuffix, 0)
		}
	}
	return links
}

func (l *Loader) body(run *inspect.Run, step, show string) (*Body, error) {
	i, err := strconv.Atoi(step)
	if err != nil || i < 0 || i >= len(run.Steps) || run.Steps[i].Call == nil {
		return nil, web.NotFound("The run has no call in step %q.", step)
	}
	name, compared := strings.CutSuffix(show, diffSuffix)
	for _, part := range bodyParts {
		if part.name != name {
			continue
		}
		b := &Body{ID: bodyID(run, i, show)}
		if compared {
			l.diffWithPrevious(b, run, i, part.of)
			return b, nil
		}
		b.Text, b.Truncated = diff.Pretty(part.of(run.Steps[i].Call), maxBodyBytes)
		if b.Text == "" {
			b.EmptyReason = "No longer in memory."
		}
		return b, nil
	}
	return nil, web.NotFound("A call has no %q.", show)
}

func (l *Loader) diffWithPrevious(b *Body, run *inspect.Run, step int, part func(*inspect.Call) json.RawMessage) {
	call := run.Steps[step].Call
	earlier, _, err := l.previousCall(run, step)
	if err != nil || earlier == nil || len(part(earlier)) == 0 {
		b.EmptyReason = "The previous call is no longer in memory."
		return
	}
	b.compare(part(earlier), part(call))
}

func (b *Body) compare(earlier, later json.RawMessage) {
	left, cutLeft := diff.Pretty(earlier, diff.MaxBytes)
	right, cutRight := diff.Pretty(later, diff.MaxBytes)
	reason := "No differences."
	if b.Hidden = hiddenLine.MatchString(left) || hiddenLine.MatchString(right); b.Hidden {
		left, right = hiddenLine.ReplaceAllString(left, ""), hiddenLine.ReplaceAllString(right, "")
		reason = "No differences in what you can get."
	}
	b.SetDiff(left, right, reason)
	b.Truncated = b.Truncated || cutLeft || cutRight
}

// hiddenLine marks an object that is reduced to its names.
var hiddenLine = regexp.MustCompile(`(?m)^ *"hidden": "` + inspect.Redacted + `",?\n?`)

// SetDiff sets the diff of two texts, or the reason why it is empty.
func (b *Body) SetDiff(left, right, emptyReason string) {
	text := diff.Texts(left, right)
	b.Diff, b.Truncated = &text, text.Truncated
	if text.Added+text.Removed == 0 {
		b.Diff, b.EmptyReason = nil, emptyReason
	}
}
