package scenario

import "github.com/setpoint-dev/setpoint/test/bench/internal/report"

// CompareUnrelated adds to the rows of the unrelated scenario how they compare
// with the same contender's without unrelated ConfigMaps.
func CompareUnrelated(r *report.Report) {
	without := map[string]string{"unrelated-create": "create", "unrelated-update": "update"}
	for i := range r.Sections {
		section := &r.Sections[i]
		if phase, ok := without[section.ID]; ok {
			compare(r, section, phase)
		}
	}
}

// compare divides the measures of a section by those of another.
func compare(r *report.Report, section *report.Section, without string) {
	for _, key := range []string{"time", "cpu", "peak"} {
		ratio := key + "÷"
		section.Columns = append(section.Columns, report.Column{Key: ratio, Title: key + " ÷ without", Unit: report.PerOne})
		for _, row := range section.Rows {
			if base, ok := r.Value(without, row.Contender, key); ok && base > 0 {
				row.Values[ratio] = row.Values[key] / base
			}
		}
	}
}
