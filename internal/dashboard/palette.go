package dashboard

import (
	"cmp"
	"slices"
	"strings"

	"github.com/setpoint-dev/setpoint/internal/dashboard/processes"
	"github.com/setpoint-dev/setpoint/internal/dashboard/userclient"
	"github.com/setpoint-dev/setpoint/internal/dashboard/web"
	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// Limits of the search: the results of one group, the words of a query, and its length, the lists of
// processes that are searched for objects, and the objects that each returns.
const (
	maxPaletteItems   = 10
	maxPaletteWords   = 8
	maxPaletteQuery   = 300
	maxPaletteSources = 64
	maxPaletteFound   = 50
)

type palettePage struct {
	Query  string
	Groups []paletteGroup
	// Warnings say why results may be missing.
	Warnings []string
	// Dialog reports that a script shows the results as a list to choose from.
	Dialog bool
}

type paletteGroup struct {
	Name  string
	Items []paletteItem
}

// paletteItem is a page to go to. Detail is muted text beside the label, rank orders the items.
type paletteItem struct {
	Label, URL, Detail string
	rank               int
}

func (p *palettePage) ResultCount() (n int) {
	for _, g := range p.Groups {
		n += len(g.Items)
	}
	return n
}

// add adds a group: the best of the items.
func (p *palettePage) add(name string, items []paletteItem) {
	slices.SortStableFunc(items, func(a, b paletteItem) int { return cmp.Or(a.rank-b.rank, strings.Compare(a.Label, b.Label)) })
	if len(items) > 0 {
		p.Groups = append(p.Groups, paletteGroup{name, items[:min(len(items), maxPaletteItems)]})
	}
}

// paletteSearch finds the results of one query, with the permissions of the user.
type paletteSearch struct {
	*request
	// words are those of the query in lower case; the last one is the name of an object.
	words []string
}

// showPalette shows what a query finds. A script shows it in a dialog.
func showPalette(req *request) error {
	p := &palettePage{Query: req.Query("q"), Dialog: req.Targets("palette-results")}
	words := strings.Fields(strings.ToLower(strings.ToValidUTF8(p.Query[:min(len(p.Query), maxPaletteQuery)], "")))
	s := &paletteSearch{req, words[:min(len(words), maxPaletteWords)]}
	known := processes.Visible(req.Processes.Fetch(req.Context()), req.Can)
	for _, t := range known {
		if t.Err != nil {
			p.Warnings = append(p.Warnings, processes.Unavailable(t.Source, t.Err))
		}
	}
	p.add("Pages", s.pages())
	p.add("Controllers", s.controllers(known))
	p.add("Kinds", s.kinds())
	found, complete := s.objects(known)
	p.add("Objects", found)
	if !complete {
		p.Warnings = append(p.Warnings, "Not all objects were searched. Type more of the name, its kind, or namespace/name.")
	}
	if p.Dialog {
		return req.RenderFragment("palette", "palette-results", p)
	}
	return req.Render(web.Page{Name: "palette", Title: "Search", Section: "palette", Static: true, Data: p})
}

// match reports whether each word is in one of the texts, and how well the words fit a name.
func (s *paletteSearch) match(name string, texts ...string) (rank int, is bool) {
	all, query := strings.ToLower(strings.Join(append(texts, name), " ")), strings.Join(s.words, " ")
	switch name = strings.ToLower(name); {
	case slices.ContainsFunc(s.words, func(word string) bool { return !strings.Contains(all, word) }):
		return 0, false
	case name == query:
		return 0, true
	case strings.HasPrefix(name, query):
		return 1, true
	}
	return 2, true
}

// pages returns the pages whose names have all words.
func (s *paletteSearch) pages() (found []paletteItem) {
	for _, each := range []paletteItem{
		{Label: "Overview", URL: "/", Detail: "all controllers and processes"},
		{Label: "Resources", URL: "/resources", Detail: "all kinds"},
		{Label: "Failing controllers", URL: "/?state=failing", Detail: "overview"},
		{Label: "Suspended controllers", URL: "/?state=Suspended", Detail: "overview"},
	} {
		if _, is := s.match(each.Label); is {
			found = append(found, each)
		}
	}
	return found
}

func (s *paletteSearch) controllers(known []processes.Info) (found []paletteItem) {
	for i := range known {
		for k := range known[i].Controllers {
			c := processes.NewControllerRow(&known[i].Controllers[k], &known[i])
			if rank, is := s.match(c.ShortName, c.Name, c.TypeLabel); is {
				at, detail := web.ControllerURL(c.Process, c.Name), c.TypeLabel+" · "+c.Health.Label
				found = append(found, paletteItem{c.ShortName, at, detail, rank})
			}
		}
	}
	return found
}

func (s *paletteSearch) kinds() (found []paletteItem) {
	if len(s.words) == 0 {
		return nil
	}
	all, err := s.API.Kinds(s.Context())
	if err != nil {
		s.Log.Debug("kinds are not known", "error", err.Error())
	}
	for _, kind := range all {
		rank, is := s.match(kind.Kind, kind.Plural, kind.Group)
		at := web.ResourceURL(kind)
		if is && !slices.ContainsFunc(found, func(other paletteItem) bool { return other.URL == at }) {
			found = append(found, paletteItem{kind.Kind, at, kind.Group, rank})
		}
	}
	return found
}

// objectSearch is a search for the objects of one kind of a controller, in the cache of its process.
type objectSearch struct {
	source     inspect.Source
	controller string
	kind       object.Kind
	found      []paletteItem
	// complete reports that no more objects match.
	complete bool
}

// objects returns the objects that controllers manage and whose names have the last word.
func (s *paletteSearch) objects(known []processes.Info) (found []paletteItem, complete bool) {
	if len(s.words) == 0 {
		return nil, true
	}
	var searches []objectSearch
	for i := range known {
		for _, c := range known[i].Controllers {
			if c.AllReplicas || processes.Unwatched(&known[i], &c) != "" {
				continue
			}
			for _, kind := range c.Kinds {
				searches = append(searches, objectSearch{source: known[i].Source, controller: c.Name, kind: kind})
			}
		}
	}
	complete = len(searches) <= maxPaletteSources
	searches = searches[:min(len(searches), maxPaletteSources)]
	userclient.InParallel(len(searches), func(i int) { s.searchObjects(&searches[i]) })
	for i := range searches {
		found, complete = append(found, searches[i].found...), complete && searches[i].complete
	}
	return found, complete
}

func (s *paletteSearch) searchObjects(q *objectSearch) {
	namespace, name, qualified := strings.Cut(s.words[len(s.words)-1], "/")
	if !qualified {
		namespace, name = "", namespace
	}
	if q.complete = !s.Can("list", q.kind, namespace, ""); q.complete {
		return
	}
	page, err := s.fetchObjects(q.source, q.controller, inspect.Query{
		Group: q.kind.Group, Kind: q.kind.Kind, Text: name, Namespace: namespace, Sort: "name", Limit: maxPaletteFound,
	})
	if err != nil {
		s.Log.Debug("objects are not known", "controller", q.controller, "error", err.Error())
	}
	q.complete = err == nil && page.Matching <= len(page.Objects)
	for i := range page.Objects {
		o := &page.Objects[i]
		label := strings.TrimPrefix(o.Namespace+"/"+o.Name, "/")
		rank, is := s.match(o.Name, label, q.kind.Kind, q.kind.Plural)
		if is && strings.Contains(strings.ToLower(o.Name), name) {
			at := web.ObjectURL(object.Ref{Kind: q.kind, Namespace: o.Namespace, Name: o.Name})
			q.found = append(q.found, paletteItem{label, at, q.kind.Kind + " · " + string(o.State), rank})
		}
	}
}
