package trigger

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/lasthandled"
	"github.com/setpoint-dev/setpoint/internal/must"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/queue"
)

var update = flag.Bool("update", false, "write the transcripts as they are now")

// TestTranscripts plays what happens to one object. In a transcript, a line that begins with a word is an event:
//
//	handler NAME REASON... [every=1h] [retries=2] [debounce=5s] [optional]
//	object WORD            a user sets spec.word
//	owned WORD             another client changes the owned objects
//	delete, restart, wait DURATION
//	NAME fails TEXT, NAME gives up TEXT, NAME again DURATION, NAME progress JSON, NAME patches JSON
//	                       how the next call of a handler ends; well if nothing is said
//	run [CAUSE]            a run of the object, and those that follow at once
//
// Indented lines are the result: the calls, the record that is stored, and when the object is looked at again.
func TestTranscripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no transcripts", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			text := must.Get(os.ReadFile(file)).In(t)
			got := play(t, string(text))
			if *update {
				must.Succeed(t, os.WriteFile(file, []byte(got), 0o600))
			}
			if diff := cmp.Diff(string(text), got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func play(t *testing.T, transcript string) string {
	w := &stage{t: t}
	var out []string
	for line := range strings.Lines(transcript) {
		line = strings.TrimRight(line, "\n")
		switch {
		case strings.HasPrefix(line, "  "):
			continue
		case strings.HasPrefix(line, "#"):
			w = &stage{t: t, clock: noon, outcomes: map[string][]string{}, words: map[string]string{}}
			w.rules = &Rules{Resource: object.Resource{Custom: true}, Record: lasthandled.Location{Annotation: "setpoint.dev/handled-by-test"}, Finalizer: "f"}
			w.states = &States{}
		}
		out = append(out, line)
		if line != "" && line[0] != '#' {
			for _, result := range w.step(strings.Fields(line)) {
				out = append(out, "  "+result)
			}
		}
	}
	return strings.Join(out, "\n") + "\n"
}

// stage has one object and what is remembered of it.
type stage struct {
	t        *testing.T
	rules    *Rules
	states   *States
	object   *object.Object
	owned    string
	clock    time.Time
	outcomes map[string][]string
	// words are the values of spec.word by the digests of the watched fields.
	words map[string]string
	said  []string
}

func (w *stage) step(words []string) []string {
	switch words[0] {
	case "handler":
		w.rules.Handlers = append(w.rules.Handlers, w.handler(words[1:]))
	case "object":
		if w.object == nil {
			w.object = newRate(w.t, words[1])
		}
		w.change(map[string]any{"spec": map[string]any{"word": words[1]}})
	case "owned":
		w.owned = words[1]
	case "delete":
		w.change(map[string]any{"metadata": map[string]any{"deletionTimestamp": "2026-03-01T12:00:00Z", "finalizers": []any{"f"}}})
	case "restart":
		w.states = &States{}
	case "wait":
		w.clock = w.clock.Add(w.duration(words[1]))
	case "run":
		w.said = nil
		w.run(slices.Contains(words, "reconcile"))
		return w.said
	default:
		w.outcomes[words[0]] = append(w.outcomes[words[0]], strings.Join(words[1:], " "))
	}
	return nil
}

func (w *stage) handler(words []string) Handler {
	h := Handler{Name: words[0]}
	for _, word := range words[1:] {
		switch name, value, _ := strings.Cut(word, "="); name {
		case "every":
			h.Every = w.duration(value)
		case "debounce":
			h.Debounce = w.duration(value)
		case "retries":
			h.Retries, _ = strconv.Atoi(value)
		case "optional":
			h.Optional = true
		default:
			h.On = append(h.On, hook.Reason(word))
		}
	}
	return h
}

func (w *stage) duration(text string) time.Duration {
	return must.Get(time.ParseDuration(text)).In(w.t)
}

// change patches the object, as one write.
func (w *stage) change(patch map[string]any) {
	version := strconv.FormatUint(w.object.Version()+1, 10)
	fields := object.MergePatch(object.DecodeOrEmpty(w.object.JSON()),
		object.CombinePatches(patch, map[string]any{"metadata": map[string]any{"resourceVersion": version}}))
	w.object = must.Get(object.Encode(fields)).In(w.t)
}

// run makes the calls that are due, and writes their responses, as package handler does.
func (w *stage) run(reconcile bool) {
	var because queue.Causes
	if reconcile {
		because = queue.NewCauses(queue.Cause{Kind: queue.ReconcileRequested})
	}
	for ready := true; ready; because = (queue.Causes{}) {
		p := NewPass(Observation{
			Rules: w.rules, Object: w.object, Causes: because, Managed: true, Now: func() time.Time { return w.clock },
			Random: func() float64 { return 0 },
			Fail: func(h *State, err error) {
				h.Failed = &Failure{Message: err.Error()}
				w.said = append(w.said, err.Error())
			},
		}, w.states)
		p.Observe(w.object, w.owned)
		p.Decide()
		for _, h := range p.Handlers {
			for _, c := range p.CallsOf(h) {
				w.call(p, c)
			}
		}
		w.write(p, nil)
		p.Observe(w.object, w.owned)
		var at time.Time
		if at, ready = p.NextRun(); !ready {
			w.said = append(w.said, w.record(p))
		}
		if !ready && !at.IsZero() {
			w.said = append(w.said, "again in "+at.Sub(w.clock).String())
		}
	}
}

func (w *stage) call(p *Pass, c Call) {
	what, name := fmt.Sprintf("%s %s", c.Handler.Name, c.Reason), c.Handler.Name
	if c.Attempt > 0 {
		what += fmt.Sprintf(", attempt %d", c.Attempt)
	}
	if e := c.Handler.Entry(); e.HasProgress(c.Reason) {
		what += ", progress " + string(e.Progress)
	}
	w.said = append(w.said, what)
	w.words[c.watched] = w.word()
	o := p.Begin(c)
	response, err := w.outcome(name)
	p.Complete(o, response, err)
	if err == nil {
		w.write(p, o)
		p.Observe(w.object, w.owned)
	}
}

func (w *stage) word() string { return strings.Trim(string(w.object.Field("spec", "word")), `"`) }

func (w *stage) outcome(name string) (*hook.HandlerResponse, error) {
	next := w.outcomes[name]
	if len(next) == 0 {
		return &hook.HandlerResponse{}, nil
	}
	w.outcomes[name] = next[1:]
	verb, text, _ := strings.Cut(next[0], " ")
	switch verb {
	case "fails":
		return nil, errors.New(text)
	case "gives":
		return nil, &hook.TerminalError{Err: errors.New(strings.TrimPrefix(text, "up "))}
	case "again":
		return &hook.HandlerResponse{RetryAfter: w.duration(text)}, nil
	case "progress":
		return &hook.HandlerResponse{Progress: []byte(text), RetryAfter: hook.Immediately}, nil
	case "patches":
		return &hook.HandlerResponse{Patch: []byte(text)}, nil
	}
	w.t.Fatalf("unknown outcome %q", next[0])
	return nil, nil
}

// write stores a response with the record; without one, what is left of the record.
func (w *stage) write(p *Pass, o *Response) {
	patch := map[string]any{}
	if o != nil {
		patch = object.DecodeOrEmpty(o.Response.Patch)
	}
	record := p.StateWith(o, "")
	var text any
	if len(record) > 0 {
		text = record.String()
	}
	if len(patch) > 0 || record.String() != p.Recorded.String() {
		metadata := map[string]any{"annotations": map[string]any{"setpoint.dev/handled-by-test": text}}
		if finalizers, differ := p.RemainingFinalizers(o, false); differ {
			w.said = append(w.said, "released")
			metadata["finalizers"] = finalizers
		}
		w.change(object.CombinePatches(patch, map[string]any{"metadata": metadata}))
		p.Wrote(w.object, nil, nil)
	}
	p.Written(o, nil, nil)
	p.Recorded = w.rules.HandledStateOf(w.object)
}

// record returns the record on the object, with words in place of digests.
func (w *stage) record(p *Pass) string {
	for _, h := range p.Handlers {
		w.words[h.watched] = w.word()
	}
	recorded, said := w.rules.HandledStateOf(w.object), "recorded:"
	for _, h := range w.rules.Handlers {
		e, has := recorded[h.Name]
		if !has {
			continue
		}
		said += " " + h.Name
		for _, part := range []struct {
			is   bool
			text string
		}{
			{e.Digest != "", " handled " + w.words[lasthandled.CutDeletion(e.Digest)]}, {e.Failed, " gave up"}, {e.Done, " done"},
			{e.Attempts > 0, fmt.Sprintf(" failed %d times", e.Attempts)}, {e.InProgress != "", " is under way"}, {e.Progress != "", " progress " + string(e.Progress)},
		} {
			if part.is {
				said += part.text
			}
		}
	}
	return said
}
