package install

import (
	"encoding/json"
	"fmt"
)

// A dashboardRow is a row of the dashboard for Grafana.
type dashboardRow struct {
	title  string
	panels []panel
}

// panel is a panel of the dashboard. By default it is a graph of a third of a row.
type panel struct {
	title, description string
	// stat shows one number, of a sixth of a row.
	stat bool
	// bad is a number from which a stat is red; 0 for none.
	bad int
	// unit is one of Grafana, such as s or bytes.
	unit    string
	queries []query
}

// query is a query in PromQL with the legend of its series.
type query struct{ expr, legend string }

// in selects the series of what the user has chosen; with a controller in ofController.
const (
	in           = `namespace=~"$namespace",job=~"$job"`
	ofController = in + `,controller=~"$controller"`
)

// dashboardRows are what the dashboard shows. The namespace and the job are those of Setpoint.
var dashboardRows = []dashboardRow{
	{"Overview", []panel{
		{title: "Leaders", stat: true, queries: []query{{`sum(setpoint_leader{` + in + `})`, ""}},
			description: "One, or one of each Setpoint."},
		{title: "Controllers", stat: true, queries: []query{{`count(max by (namespace, job, controller) (setpoint_controller_ready{` +
			ofController + `}))`, ""}}},
		{title: "Controllers not ready", stat: true, bad: 1,
			queries: []query{{`count(max by (namespace, job, controller) (setpoint_controller_condition{` + ofController +
				`,type="Ready",status="False",reason!="Suspended"})) or vector(0)`, ""}}},
		{title: "Objects", stat: true, queries: []query{{`sum(max by (namespace, job, controller) (setpoint_objects{` + ofController +
			`}))`, ""}}},
		{title: "Objects failing", stat: true, bad: 1,
			queries: []query{{`sum(max by (namespace, job, controller) (setpoint_objects_failing{` + ofController + `}))`, ""}}},
		{title: "Deletions held", stat: true, bad: 1,
			queries: []query{{`sum(max by (namespace, job, controller) (setpoint_deletions_held{` + ofController + `}))`, ""}}},
	}},
	{"Controllers", []panel{
		{title: "Controllers not ready", queries: []query{{`max by (controller, reason) (setpoint_controller_condition{` + ofController +
			`,type="Ready",status="False"})`, "{{controller}} {{reason}}"}}},
		{title: "Objects failing", queries: []query{{`max by (controller) (setpoint_objects_failing{` + ofController + `})`,
			"{{controller}}"}}},
		{title: "Objects conflicting", queries: []query{{`max by (controller) (setpoint_objects_conflicting{` + ofController + `})`,
			"{{controller}}"}}},
		{title: "Objects", queries: []query{{`max by (controller) (setpoint_objects{` + ofController + `})`, "{{controller}}"}}},
		{title: "Children", queries: []query{{`max by (controller) (setpoint_children{` + ofController + `})`, "{{controller}}"}}},
		{title: "Parents with the hooks in the spec", unit: "percentunit",
			queries:     []query{{`max by (controller) (setpoint_rollout_moved_ratio{` + ofController + `})`, "{{controller}}"}},
			description: "Of controllers with spec.rollout."},
		{title: "Parents compared in the shadow", queries: []query{{`max by (controller, result) (setpoint_rollout_shadow_parents{` +
			ofController + `})`, "{{controller}} {{result}}"}},
			description: "Responses of two versions of the hooks, before the first step of a rollout."},
		{title: "Rollouts stopped", queries: []query{{`max by (controller) (setpoint_rollout_stopped{` + ofController + `})`,
			"{{controller}}"}}, description: "Paused, blocked or rolled back."},
		{title: "Calls overdue", queries: []query{{`max by (controller) (setpoint_calls_overdue{` + ofController + `})`, "{{controller}}"}},
			description: "Calls that have not returned after their timeout. Each blocks a worker."},
	}},
	{"Reconciles", []panel{
		{title: "Reconciles", unit: "ops", queries: []query{{`sum by (controller, outcome) (rate(setpoint_reconciles_total{` +
			ofController + `}[$__rate_interval]))`, "{{controller}} {{outcome}}"}}},
		{title: "Duration", unit: "s", queries: quantiles("setpoint_reconcile_duration_seconds", ofController, "controller")},
		{title: "Workers", queries: []query{{`max by (controller) (setpoint_active_workers{` + ofController + `})`, "{{controller}}"}}},
		{title: "Queue", queries: []query{{`max by (controller, priority) (setpoint_queue_depth{` + ofController + `})`,
			"{{controller}} {{priority}}"}}},
		{title: "Wait in the queue", unit: "s", queries: append(quantiles("setpoint_queue_wait_seconds", ofController, "controller"),
			query{`max by (controller) (setpoint_queue_oldest_wait_seconds{` + ofController + `})`, "{{controller}} oldest"})},
		{title: "Retries pending", queries: []query{{`max by (controller) (setpoint_queue_backoff{` + ofController + `})`,
			"{{controller}}"}}},
	}},
	{"Hooks and handlers", []panel{
		{title: "Hook calls", unit: "ops", queries: []query{{`sum by (controller, hook, code) (rate(setpoint_hook_requests_total{` +
			ofController + `}[$__rate_interval]))`, "{{controller}} {{hook}} {{code}}"}}, description: "Code 0 means no response."},
		{title: "Duration of hook calls", unit: "s", queries: quantiles("setpoint_hook_request_duration_seconds", ofController,
			"controller", "hook")},
		{title: "Handler calls", unit: "ops",
			queries: []query{{`sum by (controller, handler, outcome) (rate(setpoint_handler_calls_total{` + ofController +
				`}[$__rate_interval]))`, "{{controller}} {{handler}} {{outcome}}"}}},
		{title: "Duration of handler calls", unit: "s", queries: quantiles("setpoint_handler_duration_seconds", ofController, "controller",
			"handler")},
		{title: "Processes of inline and exec hooks", queries: []query{{`sum by (controller) (setpoint_hook_processes{` + ofController +
			`})`, "{{controller}}"}}},
		{title: "Memory of these processes", unit: "bytes", queries: []query{{`sum by (controller) (setpoint_hook_process_memory_bytes{` +
			ofController + `})`, "{{controller}}"}}},
	}},
	{"Admission", []panel{
		{title: "Reviews", unit: "ops", queries: []query{{`sum by (controller, webhook, result) (rate(setpoint_admission_reviews_total{` +
			ofController + `}[$__rate_interval]))`, "{{controller}} {{webhook}} {{result}}"}}},
		{title: "Duration of reviews", unit: "s", queries: quantiles("setpoint_admission_duration_seconds", ofController, "controller",
			"webhook")},
		{title: "Validity of the certificate", unit: "s",
			queries: []query{{`min by (namespace, job) (setpoint_admission_certificate_not_after_timestamp_seconds{` + in + `} - time())`,
				"{{namespace}} {{job}}"}}},
	}},
	{"API server", []panel{
		{title: "Requests", unit: "ops", queries: []query{{`sum by (verb, resource) (rate(setpoint_api_requests_total{` + in +
			`}[$__rate_interval]))`, "{{verb}} {{resource}}"}}, description: "Writes, and reads that are not from a watch."},
		{title: "Errors", unit: "ops", queries: []query{{`sum by (verb, resource, outcome) (rate(setpoint_api_requests_total{` + in +
			`,outcome!="ok"}[$__rate_interval]))`, "{{verb}} {{resource}} {{outcome}}"}}},
		{title: "Duration", unit: "s", queries: quantiles("setpoint_api_request_duration_seconds", in, "verb")},
		{title: "Watches that do not work", queries: []query{{`min by (resource) (setpoint_watch_up{` + in + `}) == 0`, "{{resource}}"}}},
		{title: "Cached objects", queries: []query{{`max by (resource) (setpoint_cached_objects{` + in + `})`, "{{resource}}"}}},
		{title: "Events dropped", unit: "ops", queries: []query{{`sum by (reason) (rate(setpoint_events_dropped_total{` + in +
			`}[$__rate_interval]))`, "{{reason}}"}}},
	}},
	{"Processes", []panel{
		{title: "CPU", queries: []query{{`rate(process_cpu_seconds_total{` + in + `}[$__rate_interval])`, "{{pod}}"}},
			description: "Cores. Those of inline and exec hooks are not in it."},
		{title: "Memory", unit: "bytes", queries: []query{{`process_resident_memory_bytes{` + in + `}`, "{{pod}}"}}},
		{title: "Goroutines", queries: []query{{`go_goroutines{` + in + `}`, "{{pod}}"}}},
	}},
}

// quantiles are queries of a histogram: nine in ten are faster, and 99 in 100.
func quantiles(metric, selected string, by ...string) (all []query) {
	labels, legend := "le", ""
	for _, label := range by {
		labels += ", " + label
		legend += "{{" + label + "}} "
	}
	for _, share := range []struct{ of, name string }{{"0.9", "p90"}, {"0.99", "p99"}} {
		expr := fmt.Sprintf(`histogram_quantile(%s, sum by (%s) (rate(%s_bucket{%s}[$__rate_interval])))`,
			share.of, labels, metric, selected)
		all = append(all, query{expr, legend + share.name})
	}
	return all
}

// dashboardJSON returns the dashboard as Grafana imports it. Users choose the data source.
func dashboardJSON() []byte {
	var panels list
	top := 0
	for _, row := range dashboardRows {
		panels = append(panels, tree{"id": len(panels) + 1, "type": "row", "title": row.title, "collapsed": false, "panels": list{},
			"gridPos": tree{"x": 0, "y": top, "w": 24, "h": 1}})
		top++
		left, height := 0, 0
		for _, p := range row.panels {
			if left+p.width() > 24 {
				left, top = 0, top+height
			}
			height = p.height()
			shown := p.model()
			shown["id"], shown["gridPos"] = len(panels)+1, tree{"x": left, "y": top, "w": p.width(), "h": height}
			panels = append(panels, shown)
			left += p.width()
		}
		top += height
	}
	data, err := json.MarshalIndent(tree{
		"title": "Setpoint", "uid": "setpoint", "tags": list{"setpoint", "kubernetes"}, "schemaVersion": 39, "version": 1,
		"editable": true, "refresh": "30s", "timezone": "browser", "time": tree{"from": "now-1h", "to": "now"},
		"templating": tree{"list": dashboardVariables()}, "panels": panels,
		"annotations": tree{"list": list{}}, "links": list{},
	}, "", "  ")
	if err != nil {
		panic(err) // not a JSON value in this file
	}
	return append(data, '\n')
}

// datasource is the one that the user chooses.
var datasource = tree{"type": "prometheus", "uid": "${datasource}"}

// dashboardVariables are what users choose.
func dashboardVariables() list {
	of := func(name, label, query string) tree {
		return tree{
			"name": name, "label": label, "type": "query", "datasource": datasource, "query": tree{"query": query, "refId": name},
			"definition": query, "refresh": 2, "includeAll": true, "allValue": ".*", "multi": true, "sort": 1,
			"current": tree{"text": "All", "value": "$__all"},
		}
	}
	return list{
		tree{"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus", "refresh": 1},
		of("namespace", "Namespace", `label_values(setpoint_leader, namespace)`),
		of("job", "Job", `label_values(setpoint_leader{namespace=~"$namespace"}, job)`),
		of("controller", "Controller", `label_values(setpoint_controller_ready{`+in+`}, controller)`),
	}
}

func (p *panel) width() int {
	if p.stat {
		return 4
	}
	return 8
}

func (p *panel) height() int {
	if p.stat {
		return 4
	}
	return 8
}

// model returns the panel without its place.
func (p *panel) model() tree {
	var targets list
	for i, q := range p.queries {
		targets = append(targets, tree{"refId": string(rune('A' + i)), "datasource": datasource, "expr": q.expr, "legendFormat": q.legend,
			"instant": p.stat, "range": !p.stat})
	}
	steps := list{tree{"color": "green", "value": nil}}
	if p.bad > 0 {
		steps = append(steps, tree{"color": "red", "value": p.bad})
	}
	defaults := tree{"thresholds": tree{"mode": "absolute", "steps": steps}}
	if p.unit != "" {
		defaults["unit"] = p.unit
	}
	kind, options := "timeseries", tree{"legend": tree{"displayMode": "table", "placement": "bottom", "calcs": list{"lastNotNull", "max"}},
		"tooltip": tree{"mode": "multi", "sort": "desc"}}
	if p.stat {
		kind, options = "stat", tree{"reduceOptions": tree{"calcs": list{"lastNotNull"}}, "colorMode": "value"}
	} else {
		defaults["min"] = 0
	}
	return tree{"type": kind, "title": p.title, "description": p.description, "datasource": datasource, "targets": targets,
		"options": options, "fieldConfig": tree{"defaults": defaults, "overrides": list{}}}
}
