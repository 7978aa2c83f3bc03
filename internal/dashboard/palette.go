package dashboard

import (
	"slices"
	"strings"
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
	p := &palettePage{Query: req.query("q"), Dialog: req.targets("palette-results")}
	s := &paletteSearch{request: req, palettePage: p, words: parsePaletteQuery(p.Query)}
	s.search()
	if p.Dialog {
		return req.renderFragment("palette", "palette-results", p)
	}
	return req.render(page{Name: "palette", Title: "Search", Section: "palette", Static: true, Data: p})
}
