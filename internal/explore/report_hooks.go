package explore

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
)

// addPass adds the report of a further search.
func (r *Report) addPass(name string, p *Report) {
	r.addFound(p)
	r.Holds = slices.DeleteFunc(r.Holds, r.violates)
	note := fmt.Sprintf("%s: %s", name, count(p.States, "state"))
	if p.Cut != "" {
		note += "; not all was explored: " + p.Cut
		r.Cut = cmp.Or(r.Cut, p.Cut)
	}
	r.Notes = append(r.Notes, note+".")
}

// addHooks adds what is known of the hooks after all calls.
func (r *Report) addHooks(o *Options) {
	if o.Memo == nil {
		return
	}
	for _, h := range o.Memo.Stats() {
		r.HookCalls += h.Calls
		if average := h.Took / time.Duration(max(1, h.Calls)); average > slowCall {
			r.Notes = append(r.Notes, fmt.Sprintf("The hook %s takes %s for a call, so fewer states were explored.",
				h.Hook, average.Round(time.Millisecond)))
		}
		if h.ReadsVersions {
			r.Notes = append(r.Notes, fmt.Sprintf("The hook %s depends on resource versions, which count otherwise here than in a cluster.",
				h.Hook))
		}
		if h.Errors > 0 {
			r.Notes = append(r.Notes, fmt.Sprintf("The hook %s failed %d of %d calls.", h.Hook, h.Errors, h.Calls))
		}
	}
	if o.checksHooks() {
		r.addDifferences(o)
	}
}

// addDifferences puts the first hook that responds in two ways before all other violations. It has no steps: a call is
// enough to see it. What was explored of such a hook says nothing of it, nor that objects have nothing in common.
func (r *Report) addDifferences(o *Options) {
	all := o.Memo.Differences()
	if len(all) == 0 {
		return
	}
	d, ways := all[0], "in two ways"
	switch {
	case d.Later:
		ways += ": the response depends on earlier calls"
	case d.Restarted:
		ways += ": a process that has just started responds otherwise"
	}
	story := o.story(Deterministic, fmt.Sprintf("the hook %s responds to one request %s; they differ in %s",
		d.Hook, ways, strings.Join(d.Fields, ", ")))
	r.Violations, r.Holds = slices.Insert(r.Violations, 0, story), nil
	r.Notes = slices.DeleteFunc(r.Notes, func(note string) bool { return strings.HasPrefix(note, exploredApart) })
}

// story returns a story without steps.
func (o *Options) story(violated Property, how string) Story {
	story := Story{
		APIVersion: StoryAPIVersion, Kind: StoryKind, Metadata: StoryMetadata{Name: strings.ToLower(strings.ReplaceAll(string(violated),
			" ", "-"))},
		Setpoint: o.Version, Files: o.Files, Controllers: o.Names, Property: violated, Violation: how, LateWrites: o.LateWrites,
	}
	for _, object := range o.Objects {
		story.Objects = append(story.Objects, json.RawMessage(object.JSON()))
	}
	return story
}
