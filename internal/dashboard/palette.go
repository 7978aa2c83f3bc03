package dashboard

import (
	"cmp"
	"net/url"
	"slices"
	"strings"

	"github.com/setpoint-dev/setpoint/internal/dashboard/format"
	"github.com/setpoint-dev/setpoint/internal/dashboard/processes"
	"github.com/setpoint-dev/setpoint/internal/dashboard/userclient"
	"github.com/setpoint-dev/setpoint/internal/dashboard/web"
	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// Limits of the search: the results of one group, the words of a query, and its length.
const (
	maxPaletteItems = 10
	maxPaletteWords = 8
	maxPaletteQuery = 300
)

// palettePage is the data of the search: what the user can go to.
type palettePage struct {
	Query  string
	Groups []paletteGroup
	// Warnings say why results may be missing.
	Warnings []string
	// Dialog reports that a script shows the results as a list to choose from.
	Dialog bool
}

// paletteGroup is the results of one sort.
type paletteGroup struct {
	Name  string
	Items []paletteItem
}

// paletteItem is a page to go to.
type paletteItem struct {
	Label, URL string
	// Detail is muted text beside the label.
	Detail string
}

// ResultCount returns the number of results.
func (p *palettePage) ResultCount() (n int) {
	for _, g := range p.Groups {
		n += len(g.Items)
	}
	return n
}

// add adds a group, at most maxPaletteItems of it.
func (p *palettePage) add(name string, items []paletteItem) {
	if len(items) > maxPaletteItems {
		items = items[:maxPaletteItems]
	}
	if len(items) > 0 {
		p.Groups = append(p.Groups, paletteGroup{name, items})
	}
}

// parsePaletteQuery returns the words of a query in lower case.
func parsePaletteQuery(text string) []string {
	if len(text) > maxPaletteQuery {
		text = strings.ToValidUTF8(text[:maxPaletteQuery], "")
	}
	words := strings.Fields(strings.ToLower(text))
	return words[:min(len(words), maxPaletteWords)]
}

// containsAll reports whether each word is in one of the texts.
func containsAll(words []string, texts ...string) bool {
	all := strings.ToLower(strings.Join(texts, " "))
	return !slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(all, word) })
}

// showPalette shows what a query finds. A script shows it in a dialog.
func showPalette(req *request) error {
	p := &palettePage{Query: req.Query("q"), Dialog: req.Targets("palette-results")}
	s := &paletteSearch{request: req, palettePage: p, words: parsePaletteQuery(p.Query)}
	s.search()
	if p.Dialog {
		return req.RenderFragment("palette", "palette-results", p)
	}
	return req.Render(web.Page{Name: "palette", Title: "Search", Section: "palette", Static: true, Data: p})
}

// Limits of a search: the controllers that are searched for objects, and the objects that each
// returns, of which the names are not all that match.
const (
	maxPaletteSources = 64
	maxPaletteFound   = 50
)

// paletteSearch finds the results of one query, with the permissions of the user.
type paletteSearch struct {
	*request
	*palettePage
	words []string
	rows  []paletteController
}

// paletteController is a controller and its process.
type paletteController struct {
	processes.ControllerRow
	process processes.Info
}

// search fills the page.
func (s *paletteSearch) search() {
	for _, t := range processes.Visible(s.Processes.Fetch(s.Context()), s.Can) {
		for i := range t.Controllers {
			s.rows = append(s.rows, paletteController{processes.NewControllerRow(&t.Controllers[i], &t), t})
		}
		if t.Err != nil {
			s.Warnings = append(s.Warnings, processes.Unavailable(t.Source, t.Err))
		}
	}
	named, kind := s.exactKind()
	objects := s.findObjects(named, kind)
	if kind != nil && len(named) == 0 {
		objects = s.findObjects(s.words, nil) // An object may have the name of a kind.
	}
	s.add("Pages", s.findPages())
	var controllers []paletteItem
	for _, c := range s.findControllers() {
		detail := c.TypeLabel + " · " + c.Health.Label
		controllers = append(controllers, paletteItem{c.ShortName, web.ControllerURL(c.Process, c.Name), detail})
	}
	s.add("Controllers", controllers)
	s.add("Kinds", s.findKinds(kind))
	var found []paletteItem
	for i := range objects {
		found = append(found, objectItem(&objects[i]))
	}
	s.add("Objects", append(found, s.moreObjects(named, kind, objects)...))
}

func objectItem(o *inspect.ObjectState) paletteItem {
	return paletteItem{joinName(o.Namespace, o.Name), web.ObjectURL(o.Ref), strings.TrimSuffix(o.Kind.Kind+" · "+string(o.State), " · ")}
}

// joinName returns "namespace/name", or the name.
func joinName(namespace, name string) string {
	return strings.TrimPrefix(namespace+"/"+name, "/")
}

// findPages returns the pages whose names have all words.
func (s *paletteSearch) findPages() (found []paletteItem) {
	for _, each := range []paletteItem{
		{"Overview", "/", "all controllers and processes"},
		{"Resources", "/resources", "all kinds"},
		{"Failing controllers", "/?state=failing", "overview"},
		{"Suspended controllers", "/?state=Suspended", "overview"},
	} {
		if containsAll(s.words, each.Label) {
			found = append(found, each)
		}
	}
	return found
}

// findControllers returns the controllers that have all words in their names, best first.
func (s *paletteSearch) findControllers() (found []*paletteController) {
	for i := range s.rows {
		if c := &s.rows[i]; containsAll(s.words, c.Name, c.TypeLabel) {
			found = append(found, c)
		}
	}
	first := strings.Join(s.words, " ")
	slices.SortStableFunc(found, func(a, b *paletteController) int {
		return cmp.Or(nameRank(a.ShortName, first)-nameRank(b.ShortName, first), cmp.Compare(a.Health.Rank, b.Health.Rank),
			strings.Compare(a.ShortName, b.ShortName))
	})
	return found[:min(len(found), maxPaletteItems)]
}

// nameRank orders names by how well they fit: the same, a prefix, others.
func nameRank(name, text string) int {
	switch name = strings.ToLower(name); {
	case name == text:
		return 0
	case strings.HasPrefix(name, text):
		return 1
	}
	return 2
}

// exactKind returns the kind that one of the words names, and the other words.
func (s *paletteSearch) exactKind() (others []string, kind *object.Kind) {
	for i, word := range s.words {
		exact, _, err := s.API.KindsLike(s.Context(), word)
		if err != nil {
			s.Log.Debug("kinds are not known", "error", err.Error())
		}
		if len(exact) == 1 {
			return slices.Delete(slices.Clone(s.words), i, i+1), &exact[0]
		}
	}
	return s.words, nil
}

// findKinds returns the kinds whose names have the words, those of controllers first.
func (s *paletteSearch) findKinds(exact *object.Kind) (found []paletteItem) {
	var kinds []object.Kind
	if exact != nil && len(s.words) == 1 {
		kinds = append(kinds, *exact)
	}
	for _, c := range s.rows {
		for _, kind := range slices.Concat(c.Kinds, c.Children) {
			if containsAll(s.words, kind.Plural, kind.Kind, kind.Group) {
				kinds = append(kinds, kind)
			}
		}
	}
	if len(s.words) == 1 {
		_, like, _ := s.API.KindsLike(s.Context(), s.words[0])
		kinds = append(kinds, like...)
	}
	for i, kind := range kinds {
		if len(found) < maxPaletteItems && !slices.ContainsFunc(kinds[:i],
			func(k object.Kind) bool { return k.GroupKind() == kind.GroupKind() }) {
			found = append(found, paletteItem{kind.Kind, web.ResourceURL(kind), kind.Group})
		}
	}
	return found
}

// findObjects returns the objects that controllers manage and whose names have the words. Each
// process searches its cache.
func (s *paletteSearch) findObjects(words []string, kind *object.Kind) []inspect.ObjectState {
	if len(words) == 0 {
		return nil
	}
	namespace, text := "", words[0]
	if in, name, has := strings.Cut(text, "/"); has {
		namespace, text = in, name
	}
	queries := s.objectSearches(kind, inspect.Query{Text: text, Namespace: namespace, Sort: "name", Limit: maxPaletteFound})
	partial := len(queries) > maxPaletteSources
	queries = queries[:min(len(queries), maxPaletteSources)]
	results, more := make([][]inspect.ObjectState, len(queries)), make([]bool, len(queries))
	userclient.InParallel(len(queries), userclient.MaxParallelReviews, func(i int) { results[i], more[i] = s.searchObjects(&queries[i]) })
	if partial || slices.Contains(more, true) {
		s.warnIncomplete()
	}
	found := slices.DeleteFunc(slices.Concat(results...), func(o inspect.ObjectState) bool {
		return !strings.Contains(strings.ToLower(o.Name), text) || !containsAll(words[1:], o.Namespace, o.Name)
	})
	if kind != nil && len(queries) == 0 {
		found = s.lookUp(*kind, namespace, text)
	}
	slices.SortStableFunc(found, func(a, b inspect.ObjectState) int {
		return cmp.Or(nameRank(a.Name, text)-nameRank(b.Name, text), strings.Compare(a.Name, b.Name),
			strings.Compare(a.Namespace, b.Namespace))
	})
	return found[:min(len(found), maxPaletteItems)]
}

// warnIncomplete warns that objects may be missing in the results.
func (s *paletteSearch) warnIncomplete() {
	const text = "Not all objects were searched. Type more of the name, its kind, or namespace/name."
	if !slices.Contains(s.Warnings, text) {
		s.Warnings = append(s.Warnings, text)
	}
}

// objectSearches returns the searches for objects of a kind, or of all kinds that controllers manage
// if that is nil.
func (s *paletteSearch) objectSearches(kind *object.Kind, query inspect.Query) (queries []objectSearch) {
	for i := range s.rows {
		c := &s.rows[i]
		if c.AllReplicas || processes.Unwatched(&c.process, c.Controller) != "" {
			continue
		}
		for _, k := range c.Kinds {
			if kind == nil || kind.GroupKind() == k.GroupKind() {
				query.Group, query.Kind = k.Group, k.Kind
				queries = append(queries, objectSearch{c, k, query})
			}
		}
	}
	return queries
}

// objectSearch is a search for the objects of one kind of a controller.
type objectSearch struct {
	*paletteController
	kind  object.Kind
	query inspect.Query
}

// searchObjects returns the objects that the user may list, and whether more match.
func (s *paletteSearch) searchObjects(q *objectSearch) (found []inspect.ObjectState, more bool) {
	if !s.Can("list", q.kind, q.query.Namespace, "") {
		return nil, false
	}
	page, err := s.fetchObjects(q.process.Source, q.Name, q.query)
	if err != nil {
		s.Log.Debug("objects are not known", "controller", q.Name, "error", err.Error())
		return nil, true
	}
	found = slices.Clone(page.Objects) // A source in this process may share them.
	for i := range found {
		// Processes of older versions do not know the plural.
		found[i].Kind = q.kind
	}
	return found, page.Matching > len(page.Objects)
}

// lookUp finds objects of any kind by their exact name.
func (s *paletteSearch) lookUp(kind object.Kind, namespace, name string) (found []inspect.ObjectState) {
	if !kind.Namespaced {
		namespace = ""
	}
	table, err := s.API.Table(s.Context(), kind, userclient.TableQuery{Namespace: namespace, Fields: "metadata.name=" + name,
		Limit: maxPaletteItems})
	if err != nil {
		s.Warnings = append(s.Warnings, web.ProblemOf(err).Text)
		return nil
	}
	for _, row := range table.Rows {
		found = append(found, inspect.ObjectState{Ref: object.Ref{Kind: kind, Namespace: row.Namespace, Name: row.Name, UID: row.UID}})
	}
	return found
}

// moreObjects links to the list of a kind with the rest of the query.
func (s *paletteSearch) moreObjects(words []string, kind *object.Kind, found []inspect.ObjectState) []paletteItem {
	if kind == nil || len(words) == 0 || len(found) >= maxPaletteItems {
		return nil
	}
	values := url.Values{}
	if in, name, has := strings.Cut(words[0], "/"); has {
		values.Set("namespace", in)
		values.Set("name", name)
	} else {
		values.Set("name", words[0])
	}
	return []paletteItem{{
		Label: "All " + kind.Kind + " with names like “" + format.Shorten(words[0]) + "”",
		URL:   web.ResourceURL(*kind) + "?" + values.Encode(),
	}}
}
