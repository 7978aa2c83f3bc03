package edit

import (
	"encoding/json"
	"fmt"

	"github.com/setpoint-dev/setpoint/internal/dashboard/form"
	"github.com/setpoint-dev/setpoint/internal/dashboard/format"
	"github.com/setpoint-dev/setpoint/internal/dashboard/objects"
	"github.com/setpoint-dev/setpoint/internal/dashboard/processes"
	"github.com/setpoint-dev/setpoint/internal/diff"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// The buttons of a draft. The one in a preview saves only what was previewed.
const (
	doPreview       = "preview"
	doSavePreviewed = "save-previewed"
)

// wantsPreview reports whether to show a preview of the input: the user requested one, or saves
// another input than the previewed one.
func (req *request) wantsPreview(input map[string]any) bool {
	switch req.Field("do") {
	case doPreview:
		return true
	case doSavePreviewed:
		return req.Field("previewed") != req.pages.digester.sum(input)
	}
	return false
}

// renderPreview shows a draft with its preview: the response of the API server to a dry run, and
// the plans for it. wanted is what the user wants to store.
func (req *request) renderPreview(d *draft, input, wanted map[string]any, result json.RawMessage) error {
	stored, err := form.DecodeJSON(result)
	if err != nil {
		return err
	}
	s := &objects.Object{Ref: object.Ref{Kind: d.Kind}}
	if err := s.Parse(result); err != nil {
		return err
	}
	s.Namespace, s.Name = s.Meta.Namespace, s.Meta.Name
	p := &preview{At: req.Now(), Digest: req.pages.digester.sum(input), Outdated: req.Field("do") == doSavePreviewed}
	after := editableFields(stored)
	p.Stored = storedDiff(d.stored, after)
	if !object.IsSecret(stored) {
		p.Additions = objects.FirstFields(diffObjects(editableFields(wanted), after))
	}
	d.Preview = p
	d.release() // Plans may take long, and other drafts wait.
	if err := req.addPlans(p, s); err != nil {
		return err
	}
	return req.renderDraft(d, 0)
}

// storedDiff compares two objects as YAML, without the values of Secrets.
func storedDiff(before, after map[string]any) objects.Body {
	b := objects.Body{ID: "preview-stored"}
	known := map[string]any{}
	hidden := replaceSecretValues(before, func(path string, value any) string {
		known[path] = value
		return objects.HiddenValue
	})
	shown := replaceSecretValues(after, func(path string, value any) string {
		if before != nil && known[path] != value {
			return objects.HiddenValue + ", changed"
		}
		return objects.HiddenValue
	})
	left, right := "", form.FormatYAML(shown)
	if before != nil {
		left = form.FormatYAML(hidden)
	}
	b.SetDiff(diff.EscapeInvisible(left), diff.EscapeInvisible(right), "Nothing would change.")
	return b
}

func (req *request) addPlans(p *preview, s *objects.Object) error {
	known := req.Processes.Fetch(req.Context())
	planners, hidden := processes.PlannersOf(known, s.Kind, req.Can)
	for i := range known {
		if t := &known[i]; t.MayManage(s.Kind) {
			p.Warnings = append(p.Warnings, fmt.Sprintf("The process %s does not respond (%s): what its controllers would do is not shown.",
				t.Source.Name(), t.Lost.State))
		}
	}
	for _, by := range planners {
		plan := objects.Plan{Object: s, Controller: by.Controller.Name, CreatedAt: p.At, Edited: s.Raw}
		if err := req.pages.objects.Of(req.Request).PlanBy(&plan, by.Source, &by.Controller); err != nil {
			plan.Fail(err)
		}
		if !plan.NotManaged {
			p.Plans = append(p.Plans, plan)
		}
	}
	switch {
	case hidden > 0:
		p.Warnings = append(p.Warnings, format.Plural(hidden, "controller", "controllers")+
			" of this kind that you cannot get: what it would do is not shown.")
	case len(p.Plans) == 0 && len(p.Warnings) == 0:
		p.NoPlanReason = "No controller of Setpoint manages this object."
	}
	return req.AccessError()
}
