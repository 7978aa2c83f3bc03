package ui

import (
	"encoding/json"
	"errors"
	"net/url"
	"strconv"
	"strings"

	"github.com/setpoint-dev/setpoint/internal/diff"
	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/timeline"
)

// runPage is one run in full.
type runPage struct {
	*subject
	Entry entry
	Steps []stepView
	// Body is what is shown of a question or its answer; nil for none.
	Body *body
	Tab  string
}

// stepView is one thing that a run did.
type stepView struct {
	inspect.Step
	// ID is its own on the page.
	ID string
	// Bodies are what can be opened of a question.
	Bodies []bodyLink
	// Again says that the same was asked before in this run, and why; "" if it was not.
	// Revision labels the revision of the object that it was about, where there are several.
	Again, Revision string
	// Earlier is the run in which the same was asked before; "" for none.
	Earlier string
	Fault   *fault
	Changes []actionView
}

// actionView is one write that was decided, and what it changes.
type actionView struct {
	inspect.Action
	Sign string
	More int
}

// bodyLink leads to a question or an answer in full.
type bodyLink struct {
	Name, URL, ID string
	Bytes         int
	Open          bool
	Body          *body
}

// body is a question or an answer as text, or how it differs from an earlier one.
type body struct {
	ID, Title string
	Text      string
	Cut       bool
	Diff      *diff.Text
	// None says why there is nothing.
	None string
}

// maxBody is how much of a question or an answer is shown.
const maxBody = 512 << 10

// maxActionFields is how many changes of a planned write are shown.
const maxActionFields = 30

func showRun(v *visit) error {
	s, err := v.subject()
	if err != nil {
		return err
	}
	look := &lookup{visit: v, runs: map[runKey]inspect.Run{}}
	run, err := v.runAt(look, s)
	if err != nil {
		return err
	}
	p := runPage{subject: s, Entry: newEntry(s, run), Tab: "timeline"}
	shown := v.query("show")
	if shown != "" {
		if p.Body, err = look.body(run, v.query("step"), shown); err != nil {
			return err
		}
		if v.inside() {
			return v.fragment("object_run", "run-body", p.Body)
		}
	}
	look.explain(s, &p.Entry)
	p.Steps = stepsOf(s, &p.Entry)
	p.open()
	if v.inside() {
		return v.fragment("object_run", "run-detail", p)
	}
	return v.render(page{
		Name: "object_run", Title: "A run of " + s.Kind.Kind + " " + s.Name, Section: "resources", Still: true, Data: p,
	})
}

// runAt is the run of the address, which has to be one of the object that the visitor
// was let see.
func (v *visit) runAt(look *lookup, s *subject) (inspect.Run, error) {
	id, err := strconv.ParseUint(v.path("id"), 10, 64)
	if err != nil {
		return inspect.Run{}, missing("There is no run %q.", v.path("id"))
	}
	var silent error
	for _, source := range v.options.Sources(v.context()) {
		if wanted := v.query("in"); wanted != "" && wanted != source.Name() {
			continue
		}
		run, err := look.run(source.Name(), id)
		if err == nil && bare(run.Object) == bare(s.Ref) {
			return run, nil
		}
		if err != nil && !errors.Is(err, inspect.ErrNotFound) {
			silent = err
		}
	}
	if silent != nil {
		return inspect.Run{}, silent
	}
	return inspect.Run{}, missing("Run %d of %s %s is not kept any more.", id, s.Kind.Kind, s.Name)
}

// open puts the body that is wanted into its place.
func (p *runPage) open() {
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

func stepsOf(s *subject, e *entry) []stepView {
	views := make([]stepView, 0, len(e.Steps))
	for i, step := range e.Steps {
		view := stepView{Step: step, ID: e.ID + "-" + strconv.Itoa(i)}
		switch {
		case step.Ask != nil:
			view.Again, view.Revision = timeline.Again(e.Steps, i), timeline.Revision(e.Steps, step.Ask)
			view.Bodies = bodiesOf(e, i, view.Again != "" || step.Ask.Previous != 0)
			if step.Ask.Error != "" {
				view.Fault = explain(step.Ask.Error, step.Ask.Fault, runFailed)
			}
			if step.Ask.Previous != 0 && view.Again == "" {
				view.Earlier = runURL(s, e.Process, step.Ask.Previous)
			}
		case step.Plan != nil:
			view.Changes = actionViews(step.Plan.Actions)
		case step.Write != nil && step.Write.Error != "":
			view.Fault = explain(step.Write.Error, step.Write.Fault, runFailed)
		}
		views = append(views, view)
	}
	return views
}

func actionViews(actions []inspect.Action) []actionView {
	views := make([]actionView, 0, len(actions))
	for _, a := range actions {
		view := actionView{Action: a, Sign: signOf(a.Verb)}
		if len(a.Changes) > maxActionFields {
			view.Changes, view.More = a.Changes[:maxActionFields], len(a.Changes)-maxActionFields
		}
		views = append(views, view)
	}
	return views
}

// bodyID is that of a body on the page.
func bodyID(run inspect.Run, step int, show string) string {
	return "run-" + run.Process + "-" + strconv.FormatUint(run.ID, 10) + "-" + strconv.Itoa(step) + "-" + show
}

func bodiesOf(e *entry, step int, compared bool) []bodyLink {
	ask := e.Steps[step].Ask
	if ask.Dropped {
		return nil
	}
	var links []bodyLink
	add := func(name, show string, bytes int) {
		query := url.Values{"in": {e.Process}, "step": {strconv.Itoa(step)}, "show": {show}}
		at, _, _ := strings.Cut(e.URL, "?")
		links = append(links, bodyLink{Name: name, URL: at + "?" + query.Encode(), ID: bodyID(e.Run, step, show), Bytes: bytes})
	}
	if len(ask.Request) > 0 {
		add("Request", "request", len(ask.Request))
		if compared {
			add("Request, compared with the one before", "request-diff", 0)
		}
	}
	if len(ask.Reply) > 0 {
		add("Reply", "reply", len(ask.Reply))
		if compared {
			add("Reply, compared with the one before", "reply-diff", 0)
		}
	}
	return links
}

// body is what is wanted of a step.
func (l *lookup) body(run inspect.Run, step, show string) (*body, error) {
	i, err := strconv.Atoi(step)
	if err != nil || i < 0 || i >= len(run.Steps) || run.Steps[i].Ask == nil {
		return nil, missing("The run has asked nothing in its step %q.", step)
	}
	ask := run.Steps[i].Ask
	b := &body{ID: bodyID(run, i, show)}
	switch show {
	case "request":
		b.Text, b.Cut = diff.Pretty(ask.Request, maxBody)
	case "reply":
		b.Text, b.Cut = diff.Pretty(ask.Reply, maxBody)
	case "request-diff":
		l.compare(b, &run, i, func(a *inspect.Ask) json.RawMessage { return a.Request })
	case "reply-diff":
		l.compare(b, &run, i, func(a *inspect.Ask) json.RawMessage { return a.Reply })
	default:
		return nil, missing("A question has no %q.", show)
	}
	if b.Text == "" && b.Diff == nil && b.None == "" {
		b.None = "It is not kept any more."
	}
	return b, nil
}

// compare says how a part of a question differs from that of the one before.
func (l *lookup) compare(b *body, run *inspect.Run, step int, part func(*inspect.Ask) json.RawMessage) {
	ask := run.Steps[step].Ask
	earlier, _, err := l.before(run, step)
	if err != nil || earlier == nil || len(part(earlier)) == 0 {
		b.None = "What was there before is not kept any more."
		return
	}
	left, cutLeft := diff.Pretty(part(earlier), diff.MaxBytes)
	right, cutRight := diff.Pretty(part(ask), diff.MaxBytes)
	text := diff.Texts(left, right)
	b.Diff, b.Cut = &text, cutLeft || cutRight || text.Cut
	if text.Added+text.Removed == 0 {
		b.Diff, b.None = nil, "Nothing differs."
	}
}

// inside says that the page is there already, and wants a part of it.
func (v *visit) inside() bool {
	return v.r.Header.Get("Hx-Request") != "" && v.r.Header.Get("Hx-History-Restore-Request") == ""
}
