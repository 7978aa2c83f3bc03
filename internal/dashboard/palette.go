package dashboard

import (
	"slices"
	"strings"
)

// Limits of the command palette: the results of one group, the words of a query, and its length.
const (
	maxPaletteItems = 10
	maxPaletteWords = 8
	maxPaletteQuery = 300
)

// palettePage is the data of the command palette: what the user can go to or do.
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

// paletteItem is a page to go to, or an action.
type paletteItem struct {
	action
	// Detail is muted text beside the label.
	Detail string
}

// Count returns the number of results.
func (p *palettePage) Count() (n int) {
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

// paletteQuery is what the user typed.
type paletteQuery struct {
	// words are all words, lower case. actions are those that may begin the name of an action,
	// and target the others.
	words, actions, target []string
}

// paletteVerbs are the words of actions.
func paletteVerbs() []string {
	return []string{"reconcile", "suspend", "resume", "pause", "rollout", "edit", "delete", "create", "manifest", "graph"}
}

func parsePaletteQuery(text string) paletteQuery {
	if len(text) > maxPaletteQuery {
		text = strings.ToValidUTF8(text[:maxPaletteQuery], "")
	}
	q := paletteQuery{words: strings.Fields(strings.ToLower(text))}
	q.words = q.words[:min(len(q.words), maxPaletteWords)]
	for _, word := range q.words {
		if len(word) > 1 && slices.ContainsFunc(paletteVerbs(), func(verb string) bool { return strings.HasPrefix(verb, word) }) {
			q.actions = append(q.actions, word)
			continue
		}
		q.target = append(q.target, word)
	}
	return q
}

// containsAll reports whether each word is in one of the texts.
func containsAll(words []string, texts ...string) bool {
	all := strings.ToLower(strings.Join(texts, " "))
	return !slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(all, word) })
}

// hasWords reports whether each word begins one of the label.
func hasWords(words []string, label string) bool {
	in := strings.Fields(strings.ToLower(label))
	return !slices.ContainsFunc(words, func(word string) bool {
		return !slices.ContainsFunc(in, func(each string) bool { return strings.HasPrefix(each, word) })
	})
}

// showPalette shows what a query finds. A script shows it in a dialog.
func showPalette(req *request) error {
	p := &palettePage{Query: req.query("q"), Dialog: req.targets("palette-results")}
	q := parsePaletteQuery(p.Query)
	s := &paletteSearch{request: req, palettePage: p, paletteQuery: q}
	s.search()
	if p.Dialog {
		return req.renderFragment("palette", "palette-results", p)
	}
	return req.render(page{Name: "palette", Title: "Search", Section: "palette", Static: true, Data: p})
}
