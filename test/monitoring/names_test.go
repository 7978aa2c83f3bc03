package monitoring

import (
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
