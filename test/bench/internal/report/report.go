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
	// Ranges and Ratios are known after Fold: how the measures went in each
	// round, and how they compared with the baseline's of the same round.
	Ranges map[string]Range `json:"ranges,omitempty"`
	Ratios map[string]Range `json:"ratios,omitempty"`
}

// Range is what several rounds showed.
type Range struct {
	Low    float64 `json:"low"`
	Median float64 `json:"median"`
	High   float64 `json:"high"`
}

func rangeOf(values []float64) Range {
	return Range{Low: slices.Min(values), Median: stats.Median(values), High: slices.Max(values)}
}

// varies says whether there is more to show than the median.
func (r Range) varies() bool { return r.Low != r.High }

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
	Conditions []string     `json:"conditions"`
	Sections   []Section    `json:"sections"`
	Goals      []GoalResult `json:"goals,omitempty"`
}

// Add puts a row under a section, which is begun if it is new.
func (r *Report) Add(head Section, row Row) {
	section := r.Section(head.ID)
	if section == nil {
		head.Rows = nil
		r.Sections = append(r.Sections, head)
		section = &r.Sections[len(r.Sections)-1]
	}
	section.Rows = append(section.Rows, row)
}

// Section finds a section, which is nil when nothing was measured for it.
func (r *Report) Section(id string) *Section {
	at := slices.IndexFunc(r.Sections, func(s Section) bool { return s.ID == id })
	if at < 0 {
		return nil
	}
	return &r.Sections[at]
}

// Row finds the row of a contender, or its first.
func (s *Section) Row(contender string) (Row, bool) {
	if s == nil {
		return Row{}, false
	}
	at := slices.IndexFunc(s.Rows, func(row Row) bool { return row.Contender == contender })
	if at < 0 {
		return Row{}, false
	}
	return s.Rows[at], true
}

// Fold makes one row of the rows that a contender has in a section, one for
// each round: the median of each measure. A ratio is the median of the rounds'
// ratios, so that a machine that is slow for one round is slow for both sides.
// Contenders are put in the given order.
func (r *Report) Fold(order []string) {
	for i := range r.Sections {
		section := &r.Sections[i]
		var folded []Row
		for _, contender := range order {
			if rows := section.rounds(contender); len(rows) > 0 {
				folded = append(folded, section.fold(rows, section.rounds(r.Baseline)))
			}
		}
		section.Rows = folded
	}
}

// rounds are the rows of one contender.
func (s *Section) rounds(contender string) []Row {
	return slices.DeleteFunc(slices.Clone(s.Rows), func(row Row) bool { return row.Contender != contender })
}

func (s *Section) fold(rows, baseline []Row) Row {
	folded := Row{
		Contender: rows[0].Contender,
		Values:    map[string]float64{},
		Ranges:    map[string]Range{},
		Ratios:    map[string]Range{},
	}
	for key, values := range gather(rows) {
		folded.Ranges[key] = rangeOf(values)
		folded.Values[key] = folded.Ranges[key].Median
	}
	for _, column := range s.Columns {
		if ratios := ratios(column.Key, rows, baseline); column.Ratio && len(ratios) > 0 {
			folded.Ratios[column.Key] = rangeOf(ratios)
		}
	}
	return folded
}

// gather collects the rounds' values of each measure.
func gather(rows []Row) map[string][]float64 {
	all := map[string][]float64{}
	for _, row := range rows {
		for key, value := range row.Values {
			all[key] = append(all[key], value)
		}
	}
	return all
}

// ratios divides a measure by the baseline's of the same round.
func ratios(key string, rows, baseline []Row) []float64 {
	var all []float64
	for i, row := range rows {
		if i >= len(baseline) {
			break
		}
		value, ok := row.Values[key]
		if base := baseline[i].Values[key]; ok && base > 0 {
			all = append(all, value/base)
		}
	}
	return all
}
