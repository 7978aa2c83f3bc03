package monitoring

import (
	_ "embed"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/rules"
)

//go:embed testdata/causes.yaml
var causes string

// wait is how long an expression may take to become true: calls that time out, and a busy machine.
const wait = 8 * time.Minute

// TestCauses makes each alert's cause on a real control plane, scrapes the processes, and evaluates the
// expressions of the alerts. How long an expression must be true (for) is up to the unit tests.
func TestCauses(t *testing.T) {
	c := newCluster(t)
	hooks := serveHooks(t)
	certificate := expiringCertificate(t)
	c.kubectl("create", "secret", "generic", "webhook-certificate", "--from-file="+certificate)

	// Process a has all rights; b has those of a ServiceAccount, without what its controller needs.
	address := freeAddress(t)
	a := c.run("a", "--kubeconfig", c.kubeconfig, "--selector", "team!=b", "--leader-elect", "--workers", "1",
		"--admission-address", address, "--admission-url", "https://"+address, "--admission-certificate-secret", "webhook-certificate")
	p := newPrometheus(t)
	p.scrape("setpoint", a)
	c.waitFor("setpoint's CRDs", "wait", "--for=condition=Established", "crd/admissioncontrollers.setpoint.dev")
	c.apply(strings.ReplaceAll(causes, "HOOKS", hooks.URL))
	b := c.run("b", "--kubeconfig", c.restricted("restricted"), "--selector", "team=b", "--crds", "skip")
	p.scrape("restricted", b)

	waiting := map[string]string{
		"SetpointControllerNotReady": `controller="compositecontroller.setpoint.dev/failing"`,
		"SetpointPermissionMissing":  `controller="compositecontroller.setpoint.dev/forbidden"`,
		"SetpointReconcilesFailing":  `controller="compositecontroller.setpoint.dev/failing"`,
		"SetpointHookErrors":         `controller="compositecontroller.setpoint.dev/failing"`,
		"SetpointHookSlow":           `controller="compositecontroller.setpoint.dev/slow"`,
		"SetpointQueueNotDrained":    `controller="compositecontroller.setpoint.dev/blocked"`,
		"SetpointDeletionsHeld":      `controller="compositecontroller.setpoint.dev/forgetful"`,
		"SetpointObjectsConflicting": `controller="compositecontroller.setpoint.dev/restless"`,
		"SetpointRolloutStopped":     `controller="compositecontroller.setpoint.dev/rolled"`,
		"SetpointAPIRequestErrors":   `resource="configmaps.v1"`,
		"SetpointAdmissionErrors":    `webhook="fails"`,
		"SetpointAdmissionSlow":      `webhook="slow"`,
		"SetpointCertificateExpires": `job="setpoint"`,
		"SetpointEventsDropped":      `reason="Rejected"`,
	}
	n := 0
	p.until(waiting, func() {
		n++ // The webhooks review these, and the forgetful hook leaves out children after the first changes.
		_, _ = c.try("", "annotate", "--overwrite", "serviceaccount/reviewed", fmt.Sprintf("n=%d", n))
		rollout, _ := c.try("", "get", "compositecontroller.setpoint.dev/rolled", "-o", "jsonpath={.status.rollout.phase}")
		if rollout == "Complete" && c.count("configmaps", "-l", "of=rolled") == 2 { // The former version has settled.
			_, _ = c.try("", "patch", "compositecontroller.setpoint.dev/rolled", "--type=merge", "-p", fmt.Sprintf(`{"spec": {"hooks": {"sync": {"webhook": {"url": %q}}}}}`, hooks.URL+"/failing"))
		}
		hooks.forget.Store(c.count("configmaps", "-l", "of=forgetful") >= 12)
		_, _ = c.try("", "annotate", "--overwrite", "compositecontroller.setpoint.dev/forgetful", fmt.Sprintf("setpoint.dev/reconcile-at=%d", n))
	})

	for _, rule := range alertingRules(t, p.store) {
		if found := p.evaluate(rule); strings.Contains(found, `/quiet"`) {
			t.Errorf("%s is true for a controller without problems: %s", rule.Name(), found)
		}
	}

	c.stop() // The API server is gone: watches break, and the Lease is lost.
	p.until(map[string]string{"SetpointWatchStale": "resource=", "SetpointNoLeader": `job="setpoint"`}, func() {})
	c.stopRuns()
	p.until(map[string]string{"SetpointDown": ""}, func() {})

	for _, rule := range alertingRules(t, p.store) {
		if p.fired[rule.Name()] == "" {
			t.Errorf("no cause of %s here", rule.Name())
		}
	}
}

// until scrapes and evaluates until the expressions of alerts are true for series with a label, and calls do
// each time.
func (p *prometheus) until(waiting map[string]string, do func()) {
	p.t.Helper()
	all := alertingRules(p.t, p.store)
	deadline := time.Now().Add(wait)
	for len(waiting) > 0 {
		if time.Now().After(deadline) {
			p.t.Fatalf("expressions that are not true: %v; true are %v", waiting, p.fired)
		}
		do()
		p.scrapeAll()
		for _, rule := range all {
			found := p.evaluate(rule)
			if want, is := waiting[rule.Name()]; is && found != "" && strings.Contains(found, want) {
				p.t.Logf("%s: %s", rule.Name(), found)
				delete(waiting, rule.Name())
			}
		}
		<-time.After(time.Second) // The interval of scrapes.
	}
}

// evaluate returns the series for which the expression of an alert is true now, and notes them.
func (p *prometheus) evaluate(rule *rules.AlertingRule) string {
	p.t.Helper()
	query := must(p.engine.NewInstantQuery(p.t.Context(), p.store, nil, rule.Query().String(), time.Now()))(p.t)
	defer query.Close()
	vector, err := query.Exec(p.t.Context()).Vector()
	if err != nil {
		p.t.Fatalf("%s: %v", rule.Name(), err)
	}
	found := describe(vector)
	if found != "" && !strings.Contains(p.fired[rule.Name()], found) {
		p.fired[rule.Name()] += found + "\n"
	}
	return found
}

func describe(vector promql.Vector) string {
	var all []string
	for _, sample := range vector {
		all = append(all, fmt.Sprintf("%s %g", labels.NewBuilder(sample.Metric).Del("namespace").Labels(), sample.F))
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

func binary(t *testing.T) string {
	t.Helper()
	path := os.Getenv("SETPOINT")
	if path == "" {
		t.Fatal("$SETPOINT must be the path of the full binary: run make monitoring")
	}
	return path
}
