package dashboard

import (
	"errors"
	"html/template"
	"io"
	"slices"
	"time"

	"github.com/setpoint-dev/setpoint/internal/dashboard/templates"
	"github.com/setpoint-dev/setpoint/internal/dashboard/web"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// Story is the timeline of a violation that an exploration has found.
type Story struct {
	Name, Property, Violation string
	// Ways are the steps, and those to the other end that the violation speaks of.
	Ways []StoryWay
}

// StoryWay is a sequence of steps.
type StoryWay struct {
	Title string
	Steps []StoryStep
}

// StoryStep is a step, what it changes, and the state after it.
type StoryStep struct {
	Number int
	// Lane is one of the StoryPage's.
	Lane, Text string
	// Repeats marks the first of the steps that go on for ever.
	Repeats bool
	Changes []StoryChange
	Objects []StoryObject
}

// StoryChange is a change of an object.
type StoryChange struct {
	Object string
	// What is "created", "deleted" or "changed".
	What   string
	Fields []object.FieldChange
}

// StoryObject is an object after a step, as YAML.
type StoryObject struct{ Name, YAML string }

// StoryPage has the timelines of some stories.
type StoryPage struct {
	Version string
	// Lanes are those who make steps, from left to right.
	Lanes   []string
	Stories []Story
}

// Title is that of the page.
func (p *StoryPage) Title() string {
	if len(p.Stories) == 1 {
		return p.Stories[0].Name
	}
	return "Stories"
}

// LaneNumber returns the column of a lane, from 1.
func (p *StoryPage) LaneNumber(lane string) int { return slices.Index(p.Lanes, lane) + 1 }

// Style is the element with the styles of all pages: this one loads no files.
func (*StoryPage) Style() (template.HTML, error) {
	all, err := web.LoadAssets(assetFiles)
	style := slices.Concat([]byte("<style>"), all["app.css"].Data, all["object.css"].Data, []byte("</style>"))
	return template.HTML(style), err //nolint:gosec // The files are ours.
}

// Write writes a page that needs no server and no scripts.
func (p *StoryPage) Write(w io.Writer) error {
	pages, err := web.ParseTemplates(templates.Files, templateFuncs(&web.Site{Now: time.Now}))
	if err != nil {
		return err
	}
	page := pages["stories"]
	if page == nil {
		return errors.New("there is no page of stories")
	}
	return page.ExecuteTemplate(w, "document", p)
}
