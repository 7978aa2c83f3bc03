package scenario

import "github.com/setpoint-dev/setpoint/test/bench/internal/report"

// CompareUnrelated adds to each row of the unrelated scenario how it compares
// with the same contender's in the same round without unrelated ConfigMaps.
func CompareUnrelated(r *report.Report, size Size) {
	without := map[string]string{
		"unrelated-create": "create-" + size.String(),
		"unrelated-update": "update-" + size.String(),
	}
	for i := range r.Sections {
		if base := r.Section(without[r.Sections[i].ID]); base != nil {
			compare(&r.Sections[i], base)
		}
	}
}

// compare divides the measures of a section by those of another.
func compare(section, without *report.Section) {
	rounds := map[string]int{}
	for _, row := range section.Rows {
		base, ok := nth(without, row.Contender, rounds[row.Contender])
		rounds[row.Contender]++
		for _, key := range comparedKeys() {
			if ok && base.Values[key] > 0 {
				row.Values[key+"÷"] = row.Values[key] / base.Values[key]
			}
		}
	}
	for _, key := range comparedKeys() {
		section.Columns = append(section.Columns, report.Column{Key: key + "÷", Title: key + " ÷ without", Unit: report.PerOne})
	}
}

func comparedKeys() []string { return []string{"time", "cpu", "peak"} }

// nth is a contender's row of the n-th round.
func nth(section *report.Section, contender string, n int) (report.Row, bool) {
	for _, row := range section.Rows {
		if row.Contender != contender {
			continue
		}
		if n == 0 {
			return row, true
		}
		n--
	}
	return report.Row{}, false
}
