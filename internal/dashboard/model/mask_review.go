package model

import (
	"github.com/setpoint-dev/setpoint/internal/record"
	"github.com/setpoint-dev/setpoint/internal/recording"
)

// maskReviewTexts masks what the texts of a webhook quote from the Secret that it reviewed.
func (r *Run) maskReviewTexts(run *record.Run) {
	for i := range r.Steps {
		call := r.Steps[i].Call
		if call == nil || call.Review == nil {
			continue
		}
		masked := masker.Mask(run.Steps[i].Call, run.Resource)
		hide := func(text string) string { return string(recording.HideTokens([]byte(masked.Text(text)), mask)) }
		for _, text := range []*string{&r.Error, &call.Error, &call.Review.Message, &call.Review.Reason} {
			*text = hide(*text)
		}
		warnings := make([]string, len(call.Review.Warnings))
		for k, warning := range call.Review.Warnings {
			warnings[k] = hide(warning)
		}
		call.Review.Warnings = warnings
		for _, fault := range []**Fault{&r.Fault, &call.Fault} {
			if *fault = clonePtr(*fault); *fault != nil {
				(*fault).Body = hide((*fault).Body)
			}
		}
	}
}
