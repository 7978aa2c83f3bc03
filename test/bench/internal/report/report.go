// Package report holds what was measured and shows it: as a table with ratios,
// as Markdown, as JSON. It knows columns and units, not what they mean.
package report

import (
	"slices"

	"github.com/setpoint-dev/setpoint/test/bench/internal/stats"
)

// Unit says how a number is written.
type Unit string

// The units.
const (
	Seconds Unit = "s"
	Millis  Unit = "ms"
	MiB     Unit = "MiB"
	Bytes   Unit = "B"
	Count   Unit = "count"
	PerOne  Unit = "per one" // a small number with two digits after the point
)

// Column is one measure of a section.
type Column struct {
	Key   string `json:"key"`
	Title string `json:"title"`
	Unit  Unit   `json:"unit"`
	// Ratio adds a column that compares with the baseline's row.
	Ratio bool `json:"ratio,omitempty"`
	// Sparse leaves the column out of tables when it would hold zeros only.
	Sparse bool `json:"sparse,omitempty"`
}

// Row is what one contender reached. A measure that does not apply is absent.
type Row struct {
	Contender string             `json:"contender"`
	Values    map[string]float64 `json:"values"`
}

// Section is one scenario, or one phase of it.
type Section struct {
	ID      string   `json:"id"`
	Title   string   `json:"title"`
	Columns []Column `json:"columns"`
	Rows    []Row    `json:"rows"`
}

// Report is one run.
type Report struct {
	// Baseline is the contender that ratios compare with.
	Baseline string `json:"baseline"`
	// Conditions are the facts under which it was measured.
	Conditions []string  `json:"conditions"`
	Sections   []Section `json:"sections"`
	Verdicts   []Verdict `json:"goals,omitempty"`
}

// Add puts a row under a section, which is begun if it is new.
func (r *Report) Add(head Section, row Row) {
	at := slices.IndexFunc(r.Sections, func(s Section) bool { return s.ID == head.ID })
	if at < 0 {
		head.Rows = nil
		r.Sections = append(r.Sections, head)
		at = len(r.Sections) - 1
	}
	r.Sections[at].Rows = append(r.Sections[at].Rows, row)
}

// Value finds one measure of one contender.
func (r *Report) Value(section, contender, key string) (float64, bool) {
	for _, s := range r.Sections {
		if s.ID == section {
			return s.value(contender, key)
		}
	}
	return 0, false
}

func (s *Section) value(contender, key string) (float64, bool) {
	for _, row := range s.Rows {
		if row.Contender == contender {
			value, ok := row.Values[key]
			return value, ok
		}
	}
	return 0, false
}

// Fold makes one row of the rows that a contender has in a section, one for
// each round: the median of each measure. Contenders are put in the given
// order.
func (r *Report) Fold(order []string) {
	for i := range r.Sections {
		section := &r.Sections[i]
		var folded []Row
		for _, contender := range order {
			if values := section.medians(contender); len(values) > 0 {
				folded = append(folded, Row{Contender: contender, Values: values})
			}
		}
		section.Rows = folded
	}
}

func (s *Section) medians(contender string) map[string]float64 {
	all := map[string][]float64{}
	for _, row := range s.Rows {
		if row.Contender != contender {
			continue
		}
		for key, value := range row.Values {
			all[key] = append(all[key], value)
		}
	}
	medians := map[string]float64{}
	for key, values := range all {
		medians[key] = stats.Median(values)
	}
	return medians
}
