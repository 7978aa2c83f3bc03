package report

import "fmt"

// Goal is a limit for one measure of one contender.
type Goal struct {
	Section, Key string
	// What names the measure in the verdict.
	What string
	Unit Unit
	// Limit is the highest value that reaches the goal; with Ratio, the highest
	// multiple of the baseline's value.
	Limit float64
	Ratio bool
}

// Verdict says whether a contender reached a goal.
type Verdict struct {
	Contender string  `json:"contender"`
	What      string  `json:"what"`
	Got       float64 `json:"got"`
	Limit     float64 `json:"limit"`
	Reached   bool    `json:"reached"`
	// Text is the verdict in words.
	Text string `json:"text"`
}

// Judge compares a contender with its goals. Goals about what was not measured
// are left out.
func (r *Report) Judge(contender string, goals []Goal) {
	for _, goal := range goals {
		got, ok := r.Value(goal.Section, contender, goal.Key)
		if !ok {
			continue
		}
		want := Format(goal.Limit, goal.Unit)
		if goal.Ratio {
			base, ok := r.Value(goal.Section, r.Baseline, goal.Key)
			if !ok || base == 0 {
				continue
			}
			got, want = got/base, fmt.Sprintf("%.2f × %s", goal.Limit, r.Baseline)
		}
		r.Verdicts = append(r.Verdicts, verdict(contender, goal, round(got), want))
	}
}

// round keeps what the table shows, so that a verdict never contradicts it.
func round(v float64) float64 { return float64(int64(v*100+0.5)) / 100 }

func verdict(contender string, goal Goal, got float64, want string) Verdict {
	shown, word := Format(got, goal.Unit), "missed"
	if goal.Ratio {
		shown = fmt.Sprintf("%.2f ×", got)
	}
	if got <= goal.Limit {
		word = "reached"
	}
	return Verdict{
		Contender: contender,
		What:      goal.What,
		Got:       got,
		Limit:     goal.Limit,
		Reached:   got <= goal.Limit,
		Text:      fmt.Sprintf("%-7s  %s: %s is %s (goal: at most %s)", word, contender, goal.What, shown, want),
	}
}
