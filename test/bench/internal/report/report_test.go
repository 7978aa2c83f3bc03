package report

import (
	"encoding/json"
	"github.com/setpoint-dev/setpoint/internal/must"
	"strings"
	"testing"
)

// sample is a run of three contenders, one of which has no processor time.
func sample() *Report {
	r := &Report{Baseline: "hand", Conditions: []string{"2 processors"}}
	head := Section{ID: "create", Title: "1 create", Columns: []Column{
		{Key: "time", Title: "time", Unit: Seconds, Ratio: true},
		{Key: "cpu", Title: "CPU", Unit: Millis, Ratio: true},
		{Key: "hook", Title: "hook", Unit: Millis},
		{Key: "reads", Title: "reads", Unit: PerOne, Sparse: true},
	}}
	r.Add(head, Row{Contender: "alone", Values: map[string]float64{"time": 5, "reads": 0}})
	r.Add(head, Row{Contender: "hand", Values: map[string]float64{"time": 10, "cpu": 2}})
	r.Add(head, Row{Contender: "ours", Values: map[string]float64{"time": 12.5, "cpu": 1}})
	return r
}

func folded() *Report {
	r := sample()
	r.Fold([]string{"alone", "hand", "ours"})
	return r
}

func TestText(t *testing.T) {
	r := folded()
	r.Compare("ours", []Goal{
		{Section: "create", Key: "time", What: "time", Unit: Seconds, Limit: 1.2, Ratio: true},
		{Section: "create", Key: "cpu", What: "CPU", Unit: Millis, Limit: 1},
		{Section: "other", Key: "cpu", What: "CPU", Unit: Millis, Limit: 1},
	})
	const want = `2 processors

goals
  contender  measure       goal      got  rounds   result
  ours          time   ≤ 1.20 ×   1.25 ×       –   missed
  ours           CPU  ≤ 1.00 ms  1.00 ms       –  reached

1 create
  contender     time     ×      CPU     ×
  alone       5.00 s  0.50        –     –
  hand       10.00 s  1.00  2.00 ms  1.00
  ours       12.50 s  1.25  1.00 ms  0.50
`
	if got := r.text(); got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
}

func TestMarkdown(t *testing.T) {
	const want = `- 2 processors

**1 create**

| contender | time | × | CPU | × |
|---|---:|---:|---:|---:|
| alone | 5.00 s | 0.50 | – | – |
| hand | 10.00 s | 1.00 | 2.00 ms | 1.00 |
| ours | 12.50 s | 1.25 | 1.00 ms | 0.50 |
`
	if got := folded().markdown(); got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
}

func TestNoBaselineNoRatios(t *testing.T) {
	r := sample()
	r.Baseline = "nobody"
	r.Fold([]string{"alone", "hand", "ours"})
	if got := r.text(); strings.Contains(got, "×") {
		t.Errorf("ratios to nobody:\n%s", got)
	}
}

func TestWrite(t *testing.T) {
	for _, format := range Formats() {
		var out strings.Builder
		if err := sample().Write(&out, format); err != nil || out.Len() == 0 {
			t.Errorf("%s: %q, %v", format, out.String(), err)
		}
	}
	var out strings.Builder
	must.Succeed(t, sample().Write(&out, "json"))
	var back Report
	must.Succeed(t, json.Unmarshal([]byte(out.String()), &back))
	if row, ok := back.Section("create").Row("ours"); !ok || row.Values["time"] != 12.5 {
		t.Errorf("from JSON: %v, %v", row, ok)
	}
	if err := sample().Write(&out, "xml"); err == nil {
		t.Error("no error for an unknown format")
	}
}

func TestFoldTakesMediansInOrder(t *testing.T) {
	r := sample()
	head := r.Sections[0]
	r.Add(head, Row{Contender: "ours", Values: map[string]float64{"time": 20}})
	r.Add(head, Row{Contender: "ours", Values: map[string]float64{"time": 14}})
	r.Fold([]string{"ours", "hand", "alone"})
	if got := r.Sections[0].Rows; len(got) != 3 || got[0].Contender != "ours" {
		t.Fatalf("rows: %+v", got)
	}
	ours, _ := r.Section("create").Row("ours")
	if ours.Values["time"] != 14 || ours.Values["cpu"] != 1 {
		t.Errorf("medians: %v", ours.Values)
	}
}

// A slow round is slow for both sides, so rounds are compared with each other.
func TestFoldComparesRounds(t *testing.T) {
	r := sample()
	head := r.Sections[0]
	r.Add(head, Row{Contender: "hand", Values: map[string]float64{"time": 40}})
	r.Add(head, Row{Contender: "ours", Values: map[string]float64{"time": 44}})
	r.Fold([]string{"hand", "ours"})
	ours, _ := r.Section("create").Row("ours")
	if got := ours.Ratios["time"]; got.Low != 1.1 || got.High != 1.25 {
		t.Errorf("ratios: %+v", got)
	}
	if got := r.text(); !strings.Contains(got, "1.18 (1.10–1.25)") {
		t.Errorf("the rounds are not shown:\n%s", got)
	}
	r.Compare("ours", []Goal{{Section: "create", Key: "time", What: "time", Limit: 1.2, Ratio: true}})
	if got := r.text(); !strings.Contains(got, "1.10 × – 1.25 ×  reached") {
		t.Errorf("the rounds are not shown with the goal:\n%s", got)
	}
}

func TestFormat(t *testing.T) {
	tests := map[string]struct {
		value float64
		unit  Unit
	}{
		"1.50 s":     {1.5, Seconds},
		"0.25 ms":    {0.25, Millis},
		"12.3 MiB":   {12.34, MiB},
		"1024 B":     {1024, Bytes},
		"6000":       {6000, Count},
		"2.01":       {2.006, PerOne},
		"-102.0 MiB": {-102, MiB},
	}
	for want, test := range tests {
		if got := Format(test.value, test.unit); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
