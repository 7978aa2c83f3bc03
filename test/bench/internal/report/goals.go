package report

import "fmt"

// Goal is a limit for one measure of one contender.
type Goal struct {
	Section, Key string
	// What names the measure in the result.
	What string
	Unit Unit
	// Limit is the highest value that reaches the goal; with Ratio, the highest
	// multiple of the baseline's value.
	Limit float64
	Ratio bool
}

// GoalResult says whether a contender reached a goal.
type GoalResult struct {
	Contender string  `json:"contender"`
	What      string  `json:"what"`
	Got       Range   `json:"got"`
	Limit     float64 `json:"limit"`
	Unit      Unit    `json:"unit"`
	// Ratio says that Got and Limit are multiples of the baseline's value.
	Ratio   bool `json:"ratio,omitempty"`
	Reached bool `json:"reached"`
}

// Compare compares a contender with its goals. Goals about what was not measured
// are left out.
func (r *Report) Compare(contender string, goals []Goal) {
	for _, goal := range goals {
		row, _ := r.Section(goal.Section).Row(contender)
		of := row.Ranges
		if goal.Ratio {
			of = row.Ratios
		}
		got, ok := of[goal.Key]
		if !ok {
			continue
		}
		r.Goals = append(r.Goals, GoalResult{
			Contender: contender,
			What:      goal.What,
			Got:       got,
			Limit:     goal.Limit,
			Unit:      goal.Unit,
			Ratio:     goal.Ratio,
			Reached:   round(got.Median) <= goal.Limit,
		})
	}
}

// round keeps what the table shows, so that a result never contradicts it.
func round(v float64) float64 { return float64(int64(v*100+0.5)) / 100 }

func goalGrid(results []GoalResult) [][]string {
	grid := [][]string{{"contender", "measure", "goal", "got", "rounds", "result"}}
	for _, v := range results {
		word, rounds := "missed", none
		if v.Reached {
			word = "reached"
		}
		if v.Got.varies() {
			rounds = v.format(v.Got.Low) + " – " + v.format(v.Got.High)
		}
		grid = append(grid, []string{v.Contender, v.What, "≤ " + v.format(v.Limit), v.format(v.Got.Median), rounds, word})
	}
	return grid
}

func (v GoalResult) format(value float64) string {
	if v.Ratio {
		return fmt.Sprintf("%.2f ×", value)
	}
	return Format(value, v.Unit)
}
