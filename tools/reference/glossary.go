package main

import (
	"cmp"
	"fmt"
	"go/ast"
	"regexp"
	"slices"
	"strings"
)

var (
	conditionName  = regexp.MustCompile(`^[cC]ondition[A-Z]`)
	reasonName     = regexp.MustCompile(`^([rR]eason|Event)[A-Z]`)
	annotationName = regexp.MustCompile(`^(Annotation|Finalizer)[A-Z]`)
	camelCase      = regexp.MustCompile(`^[A-Z][A-Za-z]+$`)
)

// private are packages whose reasons no object and no event has: errors between processes, tests.
func private(dir string) bool {
	return strings.HasSuffix(dir, "/wire") || strings.HasSuffix(dir, "/hooktest")
}

// entry is one word and what it means.
type entry struct{ word, meaning string }

// group is what one block of constants declares.
type group struct {
	title   string
	entries []entry
}

// writeGlossary explains conditions, reasons, annotations and states.
func writeGlossary(s *source, parts map[string]string, problems *problems) {
	g := &glossary{source: s, problems: problems, seen: map[ast.Node]bool{}}
	for _, f := range slices.Concat(s.in("api/v1alpha1"), s.files) {
		if !private(f.dir) {
			g.read(f)
		}
	}
	g.checkLiterals()
	parts["conditions"] = tables(g.conditions, "condition")
	parts["reasons"] = reasons(g.reasons)
	parts["annotations"] = tables(g.annotations, "name")
	parts["states"] = tables(g.states, "state")
}

// glossary collects what the source declares.
type glossary struct {
	source                                   *source
	problems                                 *problems
	conditions, reasons, annotations, states []group
	known                                    []string
	seen                                     map[ast.Node]bool
}

func (g *glossary) read(f file) {
	for _, c := range constantsOf(f) {
		switch {
		case c.typed == "State" || c.typed == "controllerState":
			g.states = g.note(g.states, c)
		case c.typed != "":
		case annotationName.MatchString(c.name):
			g.annotations = g.note(g.annotations, c)
		case conditionName.MatchString(c.name) && camelCase.MatchString(c.value):
			g.conditions = g.note(g.conditions, c)
		case isReason(c):
			g.known = append(g.known, c.value)
			g.reasons = g.note(g.reasons, c)
		}
	}
}

// isReason reports whether a constant is the reason of a condition or an event, by its name or by
// what the comment of its block says.
func isReason(c constant) bool {
	of := strings.HasPrefix(comment(c.block.Doc), "Reasons of")
	return (of || reasonName.MatchString(c.name)) && camelCase.MatchString(c.value)
}

// note adds a constant to the group of its block, once.
func (g *glossary) note(groups []group, c constant) []group {
	if g.seen[c.node] {
		return groups
	}
	g.seen[c.node] = true
	meaning := g.source.sentence(c.doc, c.name)
	if meaning == "" {
		g.problems.add("%s: %s has no doc comment; docs/glossary.md needs a sentence", g.source.position(c.node), c.name)
	}
	if isReason(c) && !strings.Contains(meaning, whatToDo) && !strings.HasPrefix(meaning, "Goes with status True") {
		g.problems.add("%s: the doc comment of %s has no %q", g.source.position(c.node), c.name, strings.TrimSpace(whatToDo))
	}
	title := g.source.sentence(comment(c.block.Doc), "")
	if !c.block.Lparen.IsValid() {
		title = ""
	}
	at := slices.IndexFunc(groups, func(known group) bool { return known.title == title })
	if at < 0 {
		groups = append(groups, group{title: title})
		at = len(groups) - 1
	}
	groups[at].entries = append(groups[at].entries, entry{word: c.value, meaning: meaning})
	return groups
}

// tables are the groups, each under its title.
func tables(groups []group, word string) string {
	var text strings.Builder
	for _, g := range groups {
		if g.title != "" {
			text.WriteString(g.title + "\n\n")
		}
		fmt.Fprintf(&text, "| %s | meaning |\n|---|---|\n", word)
		for _, e := range g.entries {
			fmt.Fprintf(&text, "| `%s` | %s |\n", e.word, e.meaning)
		}
		text.WriteString("\n")
	}
	return text.String()
}

// whatToDo begins the end of the doc comment of a reason.
const whatToDo = " What to do: "

// reasons lists the groups with links, and explains each reason below a heading of its own, to which other pages and
// commands link. Groups may share a reason.
func reasons(groups []group) string {
	var text strings.Builder
	meanings := map[string]string{}
	for _, g := range groups {
		title := cmp.Or(g.title, "Reasons of other events.")
		text.WriteString("- " + title)
		of, _, _ := strings.Cut(strings.TrimPrefix(title, "Reasons "), ". ")
		for i, e := range g.entries {
			separator := []string{" ", ", "}[min(i, 1)]
			fmt.Fprintf(&text, "%s[%s](#%s)", separator, e.word, strings.ToLower(e.word))
			meaning, todo, _ := strings.Cut(e.meaning, whatToDo)
			meanings[e.word] += fmt.Sprintf("*Reason %s.* %s\n\n", strings.TrimSuffix(of, "."), meaning)
			if todo != "" {
				meanings[e.word] += "What to do: " + todo + "\n\n"
			}
		}
		text.WriteString("\n")
	}
	for _, word := range keys(meanings) {
		fmt.Fprintf(&text, "\n### %s\n\n%s", word, strings.TrimSuffix(meanings[word], "\n"))
	}
	return text.String()
}

// checkLiterals finds reasons that are written where they are used, without a constant.
func (g *glossary) checkLiterals() {
	for _, f := range g.source.files {
		if private(f.dir) || strings.HasPrefix(f.dir, "internal/plan") {
			continue
		}
		ast.Inspect(f.syntax, func(n ast.Node) bool {
			if value, ok := reasonIn(n); ok && !slices.Contains(g.known, value) {
				g.problems.add("%s: the reason %q has no constant with a doc comment", g.source.position(n), value)
			}
			return true
		})
	}
}

// reasonIn is the value of a field Reason that is a string literal.
func reasonIn(n ast.Node) (string, bool) {
	pair, ok := n.(*ast.KeyValueExpr)
	if !ok {
		return "", false
	}
	key, ok := pair.Key.(*ast.Ident)
	if !ok || key.Name != "Reason" {
		return "", false
	}
	value, ok := literal(pair.Value)
	return value, ok && camelCase.MatchString(value)
}

// writeMetrics lists the metrics: calls whose arguments are a name, a help text and labels, and
// struct literals with a Name and a Help.
func writeMetrics(s *source, parts map[string]string, problems *problems) {
	var rows []string
	for _, f := range s.files {
		ast.Inspect(f.syntax, func(n ast.Node) bool {
			name, help, labels := metricIn(n)
			switch {
			case name == "":
				return true
			case help == "":
				problems.add("%s: the metric %s has no help text", s.position(n), name)
			}
			if len(labels) > 0 {
				name += "{" + strings.Join(labels, ",") + "}"
			}
			rows = append(rows, fmt.Sprintf("| `%s` | %s |", name, cell(help)))
			return false
		})
	}
	slices.Sort(rows)
	parts["metrics"] = "| metric | meaning |\n|---|---|\n" + strings.Join(rows, "\n")
}

var metricName = regexp.MustCompile(`^setpoint_[a-z_]+$`)

func metricIn(n ast.Node) (name, help string, labels []string) {
	var texts []string
	switch n := n.(type) {
	case *ast.CallExpr:
		for _, argument := range n.Args {
			if text, ok := literal(argument); ok {
				texts = append(texts, text)
			}
		}
	case *ast.CompositeLit:
		texts = []string{textOf(n, "Name"), textOf(n, "Help")}
	}
	if len(texts) == 0 || !metricName.MatchString(texts[0]) {
		return "", "", nil
	}
	if len(texts) > 1 {
		help, labels = texts[1], texts[2:]
	}
	return texts[0], help, labels
}

// textOf is the text of one field of a struct literal.
func textOf(n *ast.CompositeLit, field string) string {
	for _, element := range n.Elts {
		pair, ok := element.(*ast.KeyValueExpr)
		if !ok {
			continue
		}
		if key, ok := pair.Key.(*ast.Ident); ok && key.Name == field {
			text, _ := literal(pair.Value)
			return text
		}
	}
	return ""
}

// writeProject lists the fields of setpoint.yaml with their comments.
func writeProject(s *source, parts map[string]string, problems *problems) {
	objects := s.objects("internal/dev/project")
	var rows []string
	for _, each := range []struct{ object, prefix string }{{"Project", ""}, {"Process", "processes[]."}} {
		for _, f := range objects[each.object].fields {
			if f.name == "-" {
				continue
			}
			if f.doc == "" {
				problems.add("the field %s of setpoint.yaml has no doc comment at %s", f.name, each.object)
			}
			rows = append(rows, fmt.Sprintf("| `%s%s` | %s |", each.prefix, f.name, named(f.doc, f.name)))
		}
	}
	parts["setpoint.yaml"] = "| field | meaning |\n|---|---|\n" + strings.Join(rows, "\n")
}
