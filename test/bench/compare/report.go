package main

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"strings"
	"time"

	"github.com/setpoint-dev/setpoint/test/bench/internal/cluster"
)

// notRun is what a cell says of a contender that was not run.
const notRun = "–"

// row is one line of the table. Of a contender that was not run, only what is
// written can be said.
type row struct {
	title   string
	written bool
	cell    func(*result) string
}

// heading is a row without cells.
func heading(title string) row { return row{title: "**" + title + "**"} }

func (s *environment) rows() []row {
	n := float64(s.objects)
	rows := []row{heading("handwritten lines")}
	rows = append(rows, s.sourceRows()...)
	rows = append(rows, heading(fmt.Sprintf("%d objects are created", s.objects)))
	rows = append(rows, stepRows(func(r *result) *outcome { return &r.create }, n)...)
	rows = append(rows, heading("the currency of all is changed"))
	rows = append(rows, stepRows(func(r *result) *outcome { return &r.change }, n)...)
	rows = append(rows, heading(fmt.Sprintf("kill -9, %d are changed, started again", s.outage)))
	rows = append(rows, restartRows()...)
	rows = append(rows, heading("all are deleted"))
	rows = append(rows, deleteRows(n)...)
	rows = append(rows, heading("memory, MiB"))
	rows = append(rows, memoryRows()...)
	rows = append(rows, heading("what it does"))
	return append(rows, behaviourRows()...)
}

func (s *environment) sourceRows() []row {
	lines := func(title string, files func(source) []string) row {
		return row{title: title, written: true, cell: func(r *result) string {
			count, err := countFiles(s.root, files(r.source))
			if err != nil {
				return err.Error()
			}
			return fmt.Sprint(count)
		}}
	}
	return []row{
		lines("program", func(f source) []string { return f.program }),
		lines("CRD, by hand", func(f source) []string { return f.crd }),
		lines("scaffolded once", func(f source) []string { return f.scaffolded }),
		lines("generated", func(f source) []string { return f.generated }),
	}
}

func stepRows(of func(*result) *outcome, n float64) []row {
	return []row{
		{title: "all right after", cell: func(r *result) string { return seconds(of(r).took) }},
		{title: "API requests per object", cell: func(r *result) string { return requests(of(r).requests, n) }},
		{title: "CPU per object", cell: func(r *result) string { return perObject(of(r), n) }},
		{title: "rate asked for, per object", cell: func(r *result) string { return fmt.Sprintf("%.2f", float64(of(r).serviceCalls)/n) }},
	}
}

func restartRows() []row {
	return []row{
		{title: "all right after", cell: func(r *result) string { return seconds(r.restart.took) }},
		{title: "API requests, in all", cell: func(r *result) string { return requests(r.restart.requests, 1) }},
		{title: "CPU, in all", cell: func(r *result) string { return seconds(r.restart.cpu + r.restart.hookCPU) }},
		{title: "rates asked for", cell: func(r *result) string { return fmt.Sprint(r.restart.serviceCalls) }},
	}
}

func deleteRows(n float64) []row {
	return []row{
		{title: "objects and ConfigMaps gone after", cell: func(r *result) string { return seconds(r.delete.took) }},
		{title: "API requests per object", cell: func(r *result) string { return requests(r.delete.requests, n) }},
	}
}

func memoryRows() []row {
	return []row{
		{title: "before there is anything to do", cell: func(r *result) string { return mebibytes(r.fresh.rss, r.fresh.hookRSS) }},
		{title: "peak", cell: func(r *result) string { return mebibytes(r.peak, r.hookPeak) }},
	}
}

func behaviourRows() []row {
	return []row{
		{title: "sees what changed while it was away", cell: func(*result) string { return "yes" }}, // or the run would have failed
		{title: "brings back a ConfigMap that was deleted", cell: func(r *result) string { return yes(r.behaviour.restoresDeleted) }},
		{title: "and one that was edited", cell: func(r *result) string { return yes(r.behaviour.restoresEdited) }},
		{title: "service down: a condition says so", cell: func(r *result) string { return yes(r.behaviour.setsCondition) }},
		{title: "and a Warning", cell: func(r *result) string { return yes(r.behaviour.sendsEvent) }},
		{title: "service back: right after", cell: func(r *result) string { return recovery(r.behaviour.recovers) }},
		{title: "an object can be deleted while it is away", cell: func(r *result) string { return yes(r.behaviour.deletesWhileDown) }},
	}
}

// report prints the table.
func (s *environment) report(ctx context.Context, out io.Writer, results []*result) error {
	facts, err := s.facts(ctx, results)
	if err != nil {
		return err
	}
	var text strings.Builder
	line(&text, "", results, func(r *result) string { return r.title })
	text.WriteString("|---" + strings.Repeat("|---:", len(results)) + "|\n")
	for _, row := range s.rows() {
		line(&text, row.title, results, func(r *result) string {
			switch {
			case row.cell == nil:
				return ""
			case r.absent != nil && !row.written:
				return notRun
			}
			return row.cell(r)
		})
	}
	_, err = fmt.Fprintf(out, "%s\n%s\n", &text, facts)
	return err
}

func line(text *strings.Builder, title string, results []*result, cell func(*result) string) {
	text.WriteString("| " + title + " |")
	for _, r := range results {
		text.WriteString(" " + cell(r) + " |")
	}
	text.WriteString("\n")
}

// facts are what a reader needs to judge the numbers.
func (s *environment) facts(ctx context.Context, results []*result) (string, error) {
	body, err := s.admin.Get(ctx, "/version")
	if err != nil {
		return "", err
	}
	var server struct {
		GitVersion string `json:"gitVersion"`
	}
	if err := jsonInto(body, &server); err != nil {
		return "", err
	}
	text := fmt.Sprintf("%d processors for everything: control plane, load generator, hook and operator; %s/%s, Kubernetes %s; took %s.",
		runtime.NumCPU(), runtime.GOOS, runtime.GOARCH, server.GitVersion, time.Since(s.since).Round(time.Second))
	for _, r := range results {
		if r.absent != nil {
			text += fmt.Sprintf("\n%s: %v.", r.title, r.absent)
		}
	}
	return text, nil
}

// requests tells a number of requests, and of which kinds they are.
func requests(counted cluster.Requests, by float64) string {
	const least = 0.005
	precision := 2
	if by == 1 {
		precision = 0
	}
	var kinds []string
	for _, kind := range cluster.Kinds() {
		if count := counted[kind] / by; count >= least {
			kinds = append(kinds, fmt.Sprintf("%s %.*f", kind, precision, count))
		}
	}
	if len(kinds) == 0 {
		return "0"
	}
	return fmt.Sprintf("%.*f (%s)", precision, counted.Total()/by, strings.Join(kinds, ", "))
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.2f s", d.Seconds()) }

func perObject(o *outcome, n float64) string {
	millis := func(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) / n }
	if o.hookCPU == 0 {
		return fmt.Sprintf("%.1f ms", millis(o.cpu))
	}
	return fmt.Sprintf("%.1f + %.1f ms", millis(o.cpu), millis(o.hookCPU))
}

// mebibytes tells the operator's memory, and the hook's if it has one.
func mebibytes(operator, hook int64) string {
	const mebibyte = 1 << 20
	if hook == 0 {
		return fmt.Sprint(operator / mebibyte)
	}
	return fmt.Sprintf("%d + %d", operator/mebibyte, hook/mebibyte)
}

func yes(holds bool) string {
	if holds {
		return "yes"
	}
	return "no"
}

func recovery(after time.Duration) string {
	if after == 0 {
		return fmt.Sprintf("not within %s", recoverTimeout)
	}
	return seconds(after)
}
