package monitoring

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/promqltest"
)

// dashboard is what the tests read of the dashboard for Grafana.
type dashboard struct {
	SchemaVersion int
	Templating    struct{ List []variable }
	Panels        []panel
}

// variable is what a user chooses.
type variable struct {
	Name, Type string
	// Query is a text or an object, as the type of the variable wants it.
	Query      json.RawMessage
	Datasource source
}

type panel struct {
	ID          int
	Type, Title string
	GridPos     gridPos
	Datasource  source
	Targets     []target
	FieldConfig struct{ Defaults struct{ Unit string } }
}

type gridPos struct{ X, Y, W, H int }

func (g gridPos) covers(other gridPos) bool {
	return g.X < other.X+other.W && other.X < g.X+g.W && g.Y < other.Y+other.H && other.Y < g.Y+g.H
}

type source struct{ Type, UID string }

type target struct {
	RefID, Expr, LegendFormat string
	Datasource                source
}

// chosen is the data source that the user chooses.
var chosen = source{Type: "prometheus", UID: "${datasource}"}

// units are IDs of Grafana that fit metrics in base units; none is a plain number.
var units = []string{"", "s", "bytes", "ops", "percentunit"}

// builtIn are variables of Grafana.
var builtIn = []string{"__rate_interval"}

var usedVariable = regexp.MustCompile(`\$\{?(\w+)`)

func readDashboard(t *testing.T) (d dashboard) {
	t.Helper()
	succeed(t, json.Unmarshal([]byte(readFile(t, dashboardFile(t))), &d))
	return d
}

func TestTheDashboardIsValid(t *testing.T) {
	d := readDashboard(t)
	if d.SchemaVersion == 0 || len(d.Panels) == 0 {
		t.Errorf("schemaVersion %d, %d panels", d.SchemaVersion, len(d.Panels))
	}
	for _, problem := range slices.Concat(d.misplaced(), d.invalidVariables(), d.invalidQueries()) {
		t.Error(problem)
	}
}

// TestMistakesInTheDashboard shows that each check finds what it is for.
func TestMistakesInTheDashboard(t *testing.T) {
	text := []byte(readFile(t, dashboardFile(t)))
	for name, test := range map[string]struct {
		change func(d *dashboard)
		want   string
	}{
		"same ID":                 {func(d *dashboard) { d.Panels[2].ID = d.Panels[1].ID }, "has the ID of"},
		"no ID":                   {func(d *dashboard) { d.Panels[2].ID = 0 }, "has no ID"},
		"overlap":                 {func(d *dashboard) { d.Panels[2].GridPos = d.Panels[1].GridPos }, "covers"},
		"too wide":                {func(d *dashboard) { d.Panels[2].GridPos.W = 25 }, "is not within 24 columns"},
		"no height":               {func(d *dashboard) { d.Panels[2].GridPos.H = 0 }, "is not within 24 columns"},
		"unknown unit":            {func(d *dashboard) { d.Panels[1].FieldConfig.Defaults.Unit = "seconds" }, `the unit "seconds"`},
		"other data source":       {func(d *dashboard) { d.Panels[1].Datasource.UID = "P1" }, "the data source"},
		"query of another one":    {func(d *dashboard) { d.Panels[1].Targets[0].Datasource = source{} }, "the data source"},
		"unknown variable":        {func(d *dashboard) { d.Panels[1].Targets[0].Expr += " + $cluster" }, "no variable cluster"},
		"no query":                {func(d *dashboard) { d.Panels[1].Targets = nil }, "0 queries"},
		"same refId":              {func(d *dashboard) { d.Panels[1].Targets = append(d.Panels[1].Targets, d.Panels[1].Targets[0]) }, "the refId"},
		"no data source":          {func(d *dashboard) { d.Templating.List = d.Templating.List[1:] }, "no variable datasource"},
		"unused variable":         {func(d *dashboard) { d.Templating.List = append(d.Templating.List, variable{Name: "pod"}) }, "no query uses the variable pod"},
		"variable of a later one": {func(d *dashboard) { slices.Reverse(d.Templating.List[1:]) }, "before it"},
	} {
		var d dashboard
		succeed(t, json.Unmarshal(text, &d))
		test.change(&d)
		found := strings.Join(slices.Concat(d.misplaced(), d.invalidVariables(), d.invalidQueries()), "\n")
		if !strings.Contains(found, test.want) {
			t.Errorf("%s: found %q", name, found)
		}
	}
}

// misplaced reports panels without an ID or a place of their own.
func (d *dashboard) misplaced() (problems []string) {
	for i, p := range d.Panels {
		if p.ID <= 0 {
			problems = append(problems, p.Title+" has no ID")
		}
		if g := p.GridPos; g.X < 0 || g.Y < 0 || g.W < 1 || g.H < 1 || g.X+g.W > 24 {
			problems = append(problems, fmt.Sprintf("%s is not within 24 columns: %+v", p.Title, g))
		}
		for _, other := range d.Panels[:i] {
			if p.ID == other.ID {
				problems = append(problems, fmt.Sprintf("%s has the ID of %s", p.Title, other.Title))
			}
			if p.GridPos.covers(other.GridPos) {
				problems = append(problems, fmt.Sprintf("%s covers %s", p.Title, other.Title))
			}
		}
	}
	return problems
}

// invalidVariables reports variables that are missing, without a use, or read before they have a value.
func (d *dashboard) invalidVariables() (problems []string) {
	used, known := []string{"datasource"}, slices.Clone(builtIn)
	for _, v := range d.Templating.List {
		if isSource := v.Type == "datasource"; v.Name == "datasource" != isSource || isSource && string(v.Query) != `"prometheus"` || !isSource && v.Datasource != chosen {
			problems = append(problems, fmt.Sprintf("the variable %s: type %s, query %s, data source %+v", v.Name, v.Type, v.Query, v.Datasource))
		}
		for _, name := range variablesIn(string(v.Query)) {
			if used = append(used, name); !slices.Contains(known, name) {
				problems = append(problems, fmt.Sprintf("the variable %s: no variable %s before it", v.Name, name))
			}
		}
		known = append(known, v.Name)
	}
	for _, p := range d.Panels {
		for _, q := range p.Targets {
			used = append(used, variablesIn(q.Expr)...)
		}
	}
	for _, name := range used {
		if !slices.Contains(known, name) {
			problems = append(problems, "no variable "+name)
		}
	}
	for _, v := range d.Templating.List {
		if !slices.Contains(used, v.Name) {
			problems = append(problems, "no query uses the variable "+v.Name)
		}
	}
	return problems
}

func variablesIn(text string) (names []string) {
	for _, found := range usedVariable.FindAllStringSubmatch(text, -1) {
		names = append(names, found[1])
	}
	return names
}

// invalidQueries reports panels without queries, and queries and units that Grafana cannot use.
func (d *dashboard) invalidQueries() (problems []string) {
	for _, p := range d.Panels {
		if (p.Type == "row") != (len(p.Targets) == 0) {
			problems = append(problems, fmt.Sprintf("%s: %s with %d queries", p.Title, p.Type, len(p.Targets)))
		}
		if unit := p.FieldConfig.Defaults.Unit; !slices.Contains(units, unit) {
			problems = append(problems, fmt.Sprintf("%s: the unit %q", p.Title, unit))
		}
		var refs []string
		sources := []source{p.Datasource}
		for _, q := range p.Targets {
			if q.RefID == "" || slices.Contains(refs, q.RefID) {
				problems = append(problems, fmt.Sprintf("%s: the refId %q", p.Title, q.RefID))
			}
			refs, sources = append(refs, q.RefID), append(sources, q.Datasource)
		}
		if p.Type != "row" && slices.ContainsFunc(sources, func(s source) bool { return s != chosen }) {
			problems = append(problems, fmt.Sprintf("%s: the data source is one of %+v", p.Title, sources))
		}
	}
	return problems
}

// scraped are labels that Prometheus adds to all series of a target.
var scraped = []string{"namespace", "job", "pod", "instance", labels.MetricName}

// libraries are metrics of client_golang, which every process in Go has.
var libraries = []string{"process_cpu_seconds_total", "process_resident_memory_bytes", "go_goroutines"}

// glossaryRow is a metric in the list that is generated from the source.
var glossaryRow = regexp.MustCompile("(?m)^\\| `(setpoint_[a-z_]+)(?:\\{([a-z_,]+)\\})?` \\|")

// exported returns the labels of every metric.
func exported(t *testing.T) map[string][]string {
	t.Helper()
	text := readFile(t, "../../docs/glossary.md")
	all := map[string][]string{}
	for _, row := range glossaryRow.FindAllStringSubmatch(text, -1) {
		all[row[1]] = strings.Split(row[2], ",")
		if strings.HasSuffix(row[1], "_seconds") {
			all[row[1]+"_bucket"] = append(all[row[1]], "le")
		}
	}
	for _, name := range libraries {
		all[name] = nil
	}
	if len(all) < 30 {
		t.Fatalf("%d metrics", len(all))
	}
	return all
}

// checkNames reports metrics and labels that do not exist.
func checkNames(t *testing.T, where, expression string, metrics map[string][]string) {
	t.Helper()
	parsed, err := parser.NewParser(parser.Options{}).ParseExpr(expression)
	if err != nil {
		t.Errorf("%s: %v", where, err)
		return
	}
	var known []string
	check := func(label string) {
		if !slices.Contains(scraped, label) && !slices.Contains(known, label) {
			t.Errorf("%s: no metric of %s has the label %s", where, expression, label)
		}
	}
	parser.Inspect(parsed, func(node parser.Node, _ []parser.Node) error {
		if selector, ok := node.(*parser.VectorSelector); ok {
			found, exists := metrics[selector.Name]
			if !exists {
				t.Errorf("%s: no metric %s", where, selector.Name)
			}
			known = append(known, found...)
			for _, matcher := range selector.LabelMatchers {
				if matcher.Name != labels.MetricName && !slices.Contains(scraped, matcher.Name) && !slices.Contains(found, matcher.Name) {
					t.Errorf("%s: %s has no label %s", where, selector.Name, matcher.Name)
				}
			}
		}
		return nil
	})
	parser.Inspect(parsed, func(node parser.Node, _ []parser.Node) error {
		switch node := node.(type) {
		case *parser.AggregateExpr:
			for _, label := range node.Grouping {
				check(label)
			}
		case *parser.BinaryExpr:
			if node.VectorMatching != nil {
				for _, label := range node.VectorMatching.MatchingLabels {
					check(label)
				}
			}
		}
		return nil
	})
}

func TestMetricsOfAlertsExist(t *testing.T) {
	metrics := exported(t)
	runbooks := readFile(t, "../../docs/monitor.md")
	for _, rule := range alertingRules(t, promqltest.LoadedStorage(t, "")) {
		checkNames(t, rule.Name(), rule.Query().String(), metrics)
		anchor := "docs/monitor.md#" + strings.ToLower(rule.Name())
		if url := rule.Annotations().Get("runbook_url"); !strings.HasSuffix(url, anchor) || !strings.Contains(runbooks, "\n### "+rule.Name()+"\n") {
			t.Errorf("%s has no runbook at %s", rule.Name(), url)
		}
		if severity := rule.Labels().Get("severity"); !slices.Contains([]string{"critical", "warning", "info"}, severity) {
			t.Errorf("%s has the severity %q", rule.Name(), severity)
		}
	}
}

// variables are the variables of Grafana in expressions, with values.
var variables = strings.NewReplacer("$__rate_interval", "5m", "$namespace", ".*", "$job", ".*", "$controller", ".*")

var legendLabel = regexp.MustCompile(`\{\{(\w+)\}\}`)

func TestMetricsOfTheDashboardExist(t *testing.T) {
	metrics := exported(t)
	d, expressions := readDashboard(t), ""
	for _, panel := range d.Panels {
		for _, target := range panel.Targets {
			expression := variables.Replace(target.Expr)
			checkNames(t, panel.Title, expression, metrics)
			expressions += expression + "\n"
			for _, label := range legendLabel.FindAllStringSubmatch(target.LegendFormat, -1) {
				if !strings.Contains(expression, label[1]) && !slices.Contains(scraped, label[1]) {
					t.Errorf("%s: the legend %s of %s", panel.Title, target.LegendFormat, expression)
				}
			}
		}
	}
	for name := range metrics {
		name = strings.TrimSuffix(name, "_bucket")
		if !strings.Contains(expressions, name) && !slices.Contains(unshown, name) {
			t.Errorf("the dashboard does not show %s, and unshown has no reason for it", name)
		}
	}
}

// unshown are metrics that are not on the dashboard: for a closer look at what another one shows.
var unshown = []string{
	"setpoint_cache_lists_total", "setpoint_cached_bytes", "setpoint_notifications_total",
	"setpoint_hook_process_cpu_seconds_total", "setpoint_hook_process_starts_total",
	"setpoint_admission_certificate_not_before_timestamp_seconds", "setpoint_trace_spans_dropped_total",
}

// dashboardFile writes the dashboard as a release does.
func dashboardFile(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	cmd := exec.CommandContext(t.Context(), "go", "-C", "../../tools/release", "run", ".", "-root", "../..", "-o", dir, "-version", "1.2.3", "-install-only")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return filepath.Join(dir, "setpoint-dashboard.json")
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	return string(must(os.ReadFile(path))(t))
}
