package explore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/setpoint-dev/setpoint/internal/object"
)

// The type of stories in files.
const (
	StoryAPIVersion = "test.setpoint.dev/v1alpha1"
	StoryKind       = "Story"
)

// Story is a violation with the steps that lead to it, from the beginning. It replays deterministically.
type Story struct {
	APIVersion string        `json:"apiVersion"`
	Kind       string        `json:"kind"`
	Metadata   StoryMetadata `json:"metadata"`
	// Setpoint is the version that wrote the story, Files are the digests of the files that it is about.
	Setpoint string            `json:"setpoint,omitempty"`
	Files    map[string]string `json:"files,omitempty"`
	// Controllers are KIND/NAME of those that were explored.
	Controllers []string `json:"controllers,omitempty"`
	// Property is what is violated, Violation how.
	Property   Property    `json:"property"`
	Violation  string      `json:"violation"`
	LateWrites bool        `json:"lateWrites,omitempty"`
	Objects    []any       `json:"objects"`
	Edits      []Edit      `json:"edits,omitempty"`
	Invariants []Invariant `json:"invariants,omitempty"`
	Steps      []StoryStep `json:"steps"`
	// Repeats is how many of the last steps go on for ever.
	Repeats int `json:"repeats,omitempty"`
	// Other are steps that lead to the other end that the violation speaks of.
	Other []StoryStep `json:"other,omitempty"`
}

// StoryMetadata names a story.
type StoryMetadata struct {
	Name string `json:"name"`
}

// StoryStep is a step, and what happens in words.
type StoryStep struct {
	Action `json:",inline"`

	Text string `json:"text"`
}

// Write writes a story for a person.
func (s *Story) Write(b *strings.Builder) {
	fmt.Fprintf(b, "%s: %s\n", s.Property, s.Violation)
	for i, step := range s.Steps {
		if s.Repeats > 0 && i == len(s.Steps)-s.Repeats {
			b.WriteString("  These steps repeat for ever:\n")
		}
		fmt.Fprintf(b, "%4d. %s\n", i+1, step.Text)
	}
	if len(s.Other) > 0 {
		b.WriteString("  The other end:\n")
	}
	for i, step := range s.Other {
		fmt.Fprintf(b, "%4d. %s\n", i+1, step.Text)
	}
}

// story returns the story of a violation.
func (s *search) story(f *found) Story {
	story := s.options.story(f.property, f.text)
	story.Steps, story.Repeats = s.stepsOf(f.nodes, f.last), f.repeats
	if f.other != noParent {
		story.Other = s.stepsOf(s.path(f.other), -1)
	}
	used := map[string]bool{}
	for _, step := range slices.Concat(story.Steps, story.Other) {
		if step.Step == edit {
			used[step.Name+" "+step.Object.String()] = true
		}
	}
	for _, e := range s.options.Edits {
		if used[e.Name+" "+e.Object.Identity().String()] {
			story.Edits = append(story.Edits, e)
		}
	}
	for _, i := range s.options.Invariants {
		if Property(i.Name) == f.property {
			story.Invariants = append(story.Invariants, i)
		}
	}
	return story
}

// stepsOf returns the steps between nodes, and after them the one with a number.
func (s *search) stepsOf(nodes []uint32, last int) []StoryStep {
	w := s.workers[0]
	var steps []StoryStep
	add := func(from state, t *transition) {
		steps = append(steps, StoryStep{Action: s.export(t.action), Text: w.describe(from, t)})
	}
	for i := range nodes[:len(nodes)-1] {
		way := s.fill(nodes[i], nodes[i+1])
		for j := range way[1:] {
			from := s.nodes[way[j]]
			all := w.expand(s.unpack(from.state))
			step := slices.IndexFunc(from.edges, func(e edge) bool { return e.to == way[j+1] })
			add(s.unpack(from.state), &all[step])
		}
	}
	if last >= 0 {
		from := s.unpack(s.nodes[nodes[len(nodes)-1]].state)
		all := w.expand(from)
		add(from, &all[last])
	}
	return steps
}

// fill returns the nodes on a shortest way between two.
func (s *search) fill(from, to uint32) []uint32 {
	return shortest(from, func(at uint32, visit visitor[uint32]) {
		for _, e := range s.nodes[at].edges {
			visit(e.to, e.to == to)
		}
	})
}

// encoded returns the JSON of a decoded value, with sorted members.
func encoded(value any) []byte {
	data, err := json.Marshal(value)
	if err != nil {
		panic("encode: " + err.Error()) // It was decoded from JSON.
	}
	return data
}

// list returns a set in one line.
func list(set map[string]bool) string {
	return strings.Join(slices.Sorted(maps.Keys(set)), ", ")
}

// MarshalJSON writes the manifest of an object to create as it is.
func (e Edit) MarshalJSON() ([]byte, error) {
	type plain Edit
	out := struct {
		plain

		Create json.RawMessage `json:"create,omitempty"`
	}{plain: plain(e)}
	if e.Create != nil {
		out.Create = e.Create.JSON()
	}
	return json.Marshal(out)
}

// UnmarshalJSON reads what MarshalJSON writes.
func (e *Edit) UnmarshalJSON(data []byte) error {
	type plain Edit
	in := struct {
		*plain

		Create json.RawMessage `json:"create,omitempty"`
	}{plain: (*plain)(e)}
	if err := json.Unmarshal(data, &in); err != nil {
		return err
	}
	if in.Create == nil {
		return nil
	}
	var err error
	e.Create, err = object.Parse(in.Create)
	return err
}

// SaveStories writes a file for each violation that has steps, and returns the files. A prefix comes before the names.
func SaveStories(folder, prefix string, violations []Story) ([]string, error) {
	var saved []string
	for i := range violations {
		story := violations[i]
		if len(story.Steps) == 0 {
			continue // A call is enough to see it.
		}
		story.Metadata.Name = prefix + story.Metadata.Name
		text, err := yaml.Marshal(story)
		if err != nil {
			return saved, err
		}
		if err := os.MkdirAll(folder, 0o750); err != nil {
			return saved, err
		}
		file := filepath.Join(folder, FileName(story.Metadata.Name)+".yaml")
		if err := os.WriteFile(file, text, 0o644); err != nil {
			return saved, err
		}
		saved = append(saved, file)
	}
	return saved, nil
}

// FileName returns a name without what file systems or shells take for something else.
func FileName(name string) string {
	return strings.Map(func(r rune) rune {
		if strings.ContainsRune(`/\:*?"<>|'$&;()[]{}`+"`!# \t\n", r) {
			return '-'
		}
		return r
	}, name)
}

// fieldsOfSteps are the fields that a step of each kind needs, in the order of their names in errors.
var fieldsOfSteps = []struct {
	kind                            actionKind
	controller, key, object, naming bool
}{
	{kind: deliver, object: true},
	{kind: reconcile, controller: true, key: true},
	{kind: send, controller: true, key: true},
	{kind: reject, controller: true, key: true, naming: true},
	{kind: restart, naming: true},
	{kind: edit, object: true, naming: true},
	{kind: interfere, object: true, naming: true},
	{kind: proceed, object: true, naming: true},
	{kind: collect, object: true, naming: true},
}

// CheckSteps reports the first step that no exploration makes, by the path of its field.
func (s *Story) CheckSteps() error {
	for _, way := range []struct {
		name  string
		steps []StoryStep
	}{{"steps", s.Steps}, {"other", s.Other}} {
		for i := range way.steps {
			if err := s.checkStep(&way.steps[i].Action); err != nil {
				return fmt.Errorf("%s[%d].%w", way.name, i, err)
			}
		}
	}
	return nil
}

func (s *Story) checkStep(a *Action) error {
	at := 0
	for at < len(fieldsOfSteps) && fieldsOfSteps[at].kind != a.Step {
		at++
	}
	if at == len(fieldsOfSteps) {
		return fmt.Errorf("step: %q is no step; there are %s", a.Step, stepNames())
	}
	needs := fieldsOfSteps[at]
	for _, field := range []struct {
		name         string
		needed, gone bool
	}{
		{"controller", needs.controller, a.Controller == ""}, {"key", needs.key, a.Key == ""},
		{"object", needs.object, a.Object == nil}, {"name", needs.naming, a.Name == ""},
	} {
		if field.needed && field.gone {
			return fmt.Errorf("%s: is required for the step %s", field.name, a.Step)
		}
	}
	if a.Step == edit && !slices.ContainsFunc(s.Edits, func(e Edit) bool {
		return e.Name == a.Name &&
			e.Object.Identity() == a.Object.Identity()
	}) {
		return fmt.Errorf("name: %q is not among the edits of %s in the story", a.Name, a.Object)
	}
	return nil
}

func stepNames() string {
	names := make([]string, len(fieldsOfSteps))
	for i := range fieldsOfSteps {
		names[i] = string(fieldsOfSteps[i].kind)
	}
	return strings.Join(names, ", ")
}

// TimelineStep is a step of a story, what it changed, and what the API server has after it.
type TimelineStep struct {
	StoryStep

	Changes []ObjectChange
	Objects []*object.Object
}

// ObjectChange is a change of an object. Before is nil if it was created, After if it is gone.
type ObjectChange struct {
	Object        object.Ref
	Before, After *object.Object
}

// Timeline makes the steps of a story, and of the way to the other end if it has one. It returns those that are possible.
func Timeline(ctx context.Context, options Options, story Story) (ways [][]TimelineStep, err error) {
	err = guarded(func() error {
		options.unrenamed = true
		s, err := replayed(options, &story)
		if err != nil {
			return err
		}
		for _, steps := range [][]StoryStep{story.Steps, story.Other} {
			if len(steps) > 0 {
				ways = append(ways, s.timeline(ctx, steps))
			}
		}
		return errors.Join(s.workers[0].err, ctx.Err())
	})
	return ways, err
}

func (s *search) timeline(ctx context.Context, steps []StoryStep) []TimelineStep {
	nodes, _, _ := s.follow(ctx, steps)
	way := make([]TimelineStep, 0, len(nodes)-1)
	for i := range nodes[:len(nodes)-1] {
		before, after := s.unpack(s.nodes[nodes[i]].state).stored, s.unpack(s.nodes[nodes[i+1]].state).stored
		step := TimelineStep{StoryStep: steps[i]}
		for _, c := range changes(s.engine, before, after) {
			step.Changes = append(step.Changes, c.export())
		}
		for _, at := range after.slots {
			if at.version != nil && at.name.ref.GroupKind() != object.Namespaces.GroupKind() {
				step.Objects = append(step.Objects, at.version.object)
			}
		}
		way = append(way, step)
	}
	return way
}

func (d difference) export() ObjectChange {
	c := ObjectChange{Object: d.after.name.ref}
	if d.before != nil {
		c.Before = d.before.object
	}
	if !d.after.gone {
		c.After = d.after.object
	}
	return c
}

// The lanes of a timeline.
const (
	LaneUsers    = "Users and other clients"
	LaneSetpoint = "Setpoint"
	LaneServer   = "API server"
	LaneOthers   = "Other controllers"
)

// Lane returns the one who makes the step.
func (a *Action) Lane() string {
	switch a.Step {
	case edit, interfere:
		return LaneUsers
	case reconcile, send, restart:
		return LaneSetpoint
	case deliver, reject:
		return LaneServer
	default:
		return LaneOthers
	}
}
