// Package monitoring tests the alert rules and the dashboard of a release with Prometheus' own packages.
//
// What lives here: unit tests of the rules, the checks that every metric in them exists and that Grafana can
// show the dashboard, and the causes of the alerts on a real control plane. What must not: rules; they are in
// tools/release/install. Who calls: make monitoring. It is a module of its own because Prometheus has many
// dependencies.
package monitoring

import (
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/prometheus/prometheus/rules"
	"github.com/prometheus/prometheus/storage"
	"sigs.k8s.io/yaml"
)

const rulesFile = "../../tools/release/install/alerts.yaml"

// unitTests is the part of promtool's format that testdata/alerts_test.yaml uses: promtool test rules
// runs the file too.
type unitTests struct {
	RuleFiles          []string   `json:"rule_files"`
	EvaluationInterval string     `json:"evaluation_interval"`
	Tests              []unitTest `json:"tests"`
}

type unitTest struct {
	Name        string `json:"name"`
	Interval    string `json:"interval"`
	InputSeries []struct {
		Series string `json:"series"`
		Values string `json:"values"`
	} `json:"input_series"`
	AlertRuleTest []struct {
		EvalTime  string          `json:"eval_time"`
		Alertname string          `json:"alertname"`
		ExpAlerts []expectedAlert `json:"exp_alerts"`
	} `json:"alert_rule_test"`
}

type expectedAlert struct {
	ExpLabels      map[string]string `json:"exp_labels"`
	ExpAnnotations map[string]string `json:"exp_annotations"`
}

func TestAlertRules(t *testing.T) {
	const file = "testdata/alerts_test.yaml"
	data := must(os.ReadFile(file))(t)
	var suite unitTests
	succeed(t, yaml.UnmarshalStrict(data, &suite))
	if rules := filepath.Join(filepath.Dir(file), suite.RuleFiles[0]); rules != filepath.Clean(rulesFile) {
		t.Fatalf("the tests are of %s", rules)
	}
	fired := map[string]bool{}
	for _, test := range suite.Tests {
		t.Run(test.Name, func(t *testing.T) { test.run(t, duration(t, suite.EvaluationInterval), fired) })
	}
	for _, rule := range alertingRules(t, promqltest.LoadedStorage(t, "")) {
		if !fired[rule.Name()] {
			t.Errorf("no unit test of %s", rule.Name())
		}
	}
}

// run evaluates the rules at each interval, as Prometheus does.
func (test *unitTest) run(t *testing.T, every time.Duration, fired map[string]bool) {
	load := "load " + test.Interval + "\n"
	for _, series := range test.InputSeries {
		load += "  " + series.Series + " " + series.Values + "\n"
	}
	store := promqltest.LoadedStorage(t, load)
	all := alertingRules(t, store)
	query := rules.EngineQueryFunc(newEngine(t), store)
	at := time.Duration(0)
	for _, check := range test.AlertRuleTest {
		for ; at <= duration(t, check.EvalTime); at += every {
			for _, rule := range all {
				must(rule.Eval(t.Context(), 0, time.Unix(0, 0).Add(at), query, nil, 0))(t)
			}
		}
		i := slices.IndexFunc(all, func(r *rules.AlertingRule) bool { return r.Name() == check.Alertname })
		if i < 0 {
			t.Fatalf("no alert %s", check.Alertname)
		}
		var want []string
		for _, alert := range check.ExpAlerts {
			alert.ExpLabels[labels.AlertName] = check.Alertname
			want = append(want, labels.FromMap(alert.ExpLabels).String()+labels.FromMap(alert.ExpAnnotations).String())
			fired[check.Alertname] = true
		}
		if got := firing(all[i]); !slices.Equal(got, want) {
			t.Errorf("after %s:\n got %s\nwant %s", check.EvalTime, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
}

// firing returns the alerts of a rule that have been active for long enough.
func firing(rule *rules.AlertingRule) (all []string) {
	for _, alert := range rule.ActiveAlerts() {
		if alert.State == rules.StateFiring {
			all = append(all, alert.Labels.String()+alert.Annotations.String())
		}
	}
	slices.Sort(all)
	return all
}

// alertingRules reads the rules, as Prometheus does.
func alertingRules(t *testing.T, store storage.Storage) []*rules.AlertingRule {
	t.Helper()
	manager := rules.NewManager(&rules.ManagerOptions{
		QueryFunc: rules.EngineQueryFunc(newEngine(t), store), Context: t.Context(),
		Logger: slog.New(slog.DiscardHandler), Parser: parser.NewParser(parser.Options{}),
		NameValidationScheme: model.UTF8Validation,
	})
	groups, errs := manager.LoadGroups(time.Minute, labels.EmptyLabels(), "", nil, false, rulesFile)
	for _, err := range errs {
		t.Error(err)
	}
	var all []*rules.AlertingRule
	for _, name := range slices.Sorted(maps.Keys(groups)) {
		all = append(all, groups[name].AlertingRules()...)
	}
	if len(all) == 0 {
		t.Fatal("no rules")
	}
	return all
}

func newEngine(t *testing.T) *promql.Engine {
	t.Helper()
	return promqltest.NewTestEngineWithOpts(t, promql.EngineOpts{
		MaxSamples: 1_000_000, Timeout: time.Minute, EnableAtModifier: true, Parser: parser.NewParser(parser.Options{}),
	})
}

func duration(t *testing.T, text string) time.Duration {
	t.Helper()
	d := must(model.ParseDuration(text))(t)
	return time.Duration(d)
}
