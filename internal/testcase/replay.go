package testcase

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/setpoint-dev/setpoint/internal/difference"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/recording"
	"github.com/setpoint-dev/setpoint/internal/redact"
	"github.com/setpoint-dev/setpoint/internal/workspace"
)

// Replayed is the comparison of recorded responses with those of the present logic.
type Replayed struct {
	Files []string `json:"files"`
	// Calls are recorded, of which Requests are distinct. Same of them have the same response.
	Calls    int `json:"calls"`
	Requests int `json:"requests"`
	Same     int `json:"same"`
	// NotRun requests were not called before the time was up.
	NotRun int `json:"notRun,omitempty"`
	// Counts are the distinct requests by their most severe consequence. Differences has the first thousand of each.
	Counts      map[difference.Consequence]int `json:"counts,omitempty"`
	Differences []Difference                   `json:"differences,omitempty"`
	// Notes say what the recording or the comparison lacks.
	Notes   []string `json:"notes,omitempty"`
	Seconds float64  `json:"seconds"`
}

// Difference is a request to which the present logic responds otherwise.
type Difference struct {
	Consequence difference.Consequence `json:"consequence"`
	Controller  string                 `json:"controller"`
	Hook        string                 `json:"hook"`
	Object      object.Ref             `json:"object"`
	// Time is that of the first such call, and Causes are its causes. Requests differ in the same way, Calls had them.
	Time     time.Time           `json:"time"`
	Causes   []string            `json:"causes,omitempty"`
	Requests int                 `json:"requests"`
	Calls    int                 `json:"calls"`
	Effects  []difference.Effect `json:"effects"`
}

// key is the same for requests about one object that differ in the same way.
func (d *Difference) key() string {
	return fmt.Sprint(d.Controller, "\n", d.Hook, "\n", d.Object, "\n", d.Effects)
}

// Passed reports whether nothing differs, and everything was compared that can be.
func (r *Replayed) Passed() bool {
	return r.Same > 0 && r.NotRun == 0 && (len(r.Counts) == 0 || len(r.Counts) == 1 && r.Counts[difference.NotComparable] > 0)
}

// maxDifferences is how many differences of one consequence are kept.
const maxDifferences = 1000

// requestKey identifies a request of a hook.
type requestKey [sha256.Size]byte

func keyOf(c *recording.Call) requestKey {
	return sha256.Sum256([]byte(c.Controller + "\n" + c.Hook + "\n" + string(c.Template)))
}

// lastResponse is the latest response to a request, and how many calls had the request.
type lastResponse struct {
	digest, err string
	calls       int
	done        bool
}

// replay compares recordings with the hooks of a workspace.
type replay struct {
	workspace *workspace.Workspace
	requests  map[requestKey]*lastResponse
	group     errgroup.Group

	mu     sync.Mutex
	result Replayed
	// differences are those of the result, kept counts them by consequence.
	differences map[string]*Difference
	kept        map[difference.Consequence]int
	// twice are the hooks that were called twice with one request.
	twice map[string]bool
	// missing counts the calls of controllers that the files do not have, unknown their requests.
	missing map[string]int
	unknown int
	totals  recording.Totals
	// changed counts calls with another response than the same request had before.
	changed int
}

// parallelCalls is how many calls are made at once.
const parallelCalls = 8

// Replay calls the hooks of a workspace with each recorded request once, and compares the responses. It ends early
// with the context.
func Replay(ctx context.Context, w *workspace.Workspace, files []string) (*Replayed, error) {
	began := time.Now()
	r := &replay{
		workspace: w, requests: map[requestKey]*lastResponse{}, twice: map[string]bool{}, missing: map[string]int{},
		differences: map[string]*Difference{}, kept: map[difference.Consequence]int{},
		result: Replayed{Files: files, Counts: map[difference.Consequence]int{}},
	}
	r.group.SetLimit(parallelCalls)
	if err := r.read(files, r.count); err != nil {
		return nil, err
	}
	r.result.Requests = len(r.requests)
	r.totals = recording.Totals{}
	err := r.read(files, func(call *recording.Call) error { return r.run(ctx, call) })
	_ = r.group.Wait() // No function returns an error.
	if err != nil {
		return nil, err
	}
	r.finish()
	r.result.Seconds = time.Since(began).Seconds()
	return &r.result, nil
}

// read calls a function with each call in the files.
func (r *replay) read(files []string, each func(*recording.Call) error) error {
	for _, file := range files {
		if err := r.readFile(file, each); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
	}
	return nil
}

func (r *replay) readFile(file string, each func(*recording.Call) error) error {
	in, err := os.Open(file)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	reader := recording.NewReader(in)
	for {
		call, err := reader.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil {
			err = each(call)
		}
		if err != nil {
			return err
		}
	}
	r.totals = r.totals.Plus(reader.Totals)
	if note := file + " ends in the middle: its process has crashed, or still writes"; reader.IsCut() &&
		!slices.Contains(r.result.Notes, note) {
		r.result.Notes = append(r.result.Notes, note)
	}
	return nil
}

// count notes a call.
func (r *replay) count(call *recording.Call) error {
	r.result.Calls++
	key := keyOf(call)
	last := r.requests[key]
	if last == nil {
		last = &lastResponse{}
		r.requests[key] = last
	} else if last.err != call.Error || last.digest != call.ResponseDigest {
		r.changed++
	}
	last.digest, last.err = call.ResponseDigest, call.Error
	last.calls++
	return nil
}

// run replays a call, unless its request was called before, or has a later response. Calls that were recorded since they
// were counted are left out.
func (r *replay) run(ctx context.Context, call *recording.Call) error {
	if ctx.Err() != nil {
		return nil //nolint:nilerr // What is left counts as not run.
	}
	last := r.requests[keyOf(call)]
	if last == nil || last.done || last.err != call.Error || last.digest != call.ResponseDigest {
		return nil
	}
	last.done = true
	one, err := newRecorded(r.workspace, call)
	switch {
	case errors.Is(err, errNoController):
		r.missing[call.Controller] += last.calls
		r.unknown++
		return nil
	case err != nil:
		r.add(call, last.calls, failed(err))
		return nil
	}
	r.group.Go(func() error {
		if list, err := r.compare(ctx, one); err == nil {
			r.add(call, last.calls, list)
		}
		return nil
	})
	return nil
}

// add adds the result of a request.
func (r *replay) add(call *recording.Call, calls int, list []difference.Effect) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(list) == 0 {
		r.result.Same++
		return
	}
	d := &Difference{
		Consequence: list[0].Consequence, Controller: call.Controller, Hook: call.Hook, Object: call.Object,
		Time: call.Time, Causes: call.Causes, Effects: list,
	}
	r.result.Counts[d.Consequence]++
	known := r.differences[d.key()]
	switch {
	case known != nil && d.Time.Before(known.Time):
		known.Time, known.Causes = d.Time, d.Causes
	case known == nil && r.kept[d.Consequence] < maxDifferences:
		r.kept[d.Consequence]++
		r.differences[d.key()] = d
	}
	if known != nil {
		d = known
	}
	d.Requests++
	d.Calls += calls
}

// compare calls a hook. An error means that the context has ended.
func (r *replay) compare(ctx context.Context, one *recorded) ([]difference.Effect, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	got, err := one.respond(ctx)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		return failed(err), nil
	}
	list := one.effectsOf(got)
	if len(list) > 0 || r.first(one.call) {
		if path, err := one.unstable(ctx, got); err != nil {
			return nil, err
		} else if path != "" {
			return slices.Insert(list, 0, difference.Effect{Consequence: difference.Unstable,
				Text: "the same request has different responses: " + path}), nil
		}
	}
	if one.call.HasSecrets && len(list) > 0 {
		return one.withoutSecrets(ctx, r.workspace, got, list)
	}
	return list, nil
}

// failed returns the effect of an error.
func failed(err error) []difference.Effect {
	return []difference.Effect{{Consequence: difference.Failed, Text: err.Error()}}
}

// first reports whether a hook has not been called twice yet.
func (r *replay) first(call *recording.Call) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	name := call.Controller + " " + call.Hook
	called := r.twice[name]
	r.twice[name] = true
	return !called
}

// unstable calls the hook once more and returns the path at which the responses differ; "" for none.
func (r *recorded) unstable(ctx context.Context, got fields) (string, error) {
	again, err := r.respond(ctx)
	switch {
	case ctx.Err() != nil:
		return "", ctx.Err()
	case err != nil:
		return err.Error(), nil //nolint:nilerr // The second call has failed, the first has not.
	}
	if changes := difference.Changes(got, again); len(changes) > 0 {
		return changes[0].Path, nil
	}
	return "", nil
}

// withoutSecrets replaces effects by one that says that the response depends on values of Secrets, if all
// differences do.
func (r *recorded) withoutSecrets(ctx context.Context, w *workspace.Workspace, got fields, list []difference.Effect) ([]difference.Effect,
	error) {
	if got[fieldError] != nil && r.response[fieldError] == nil {
		return []difference.Effect{{Consequence: difference.NotComparable,
			Text: fmt.Sprintf("the recording has no values of Secrets, and without them the hook fails: %v", got[fieldError])}}, nil
	}
	dependent, err := r.secretParts(ctx, w, got)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		return failed(err), nil
	}
	var paths []string
	for _, change := range difference.Changes(r.response, got) {
		// A value that was masked may be one that the hook has, too.
		masked := redact.HasTokens(string(change.From)) && change.To != nil
		if !masked && !dependent.include(change.Path) {
			return list, nil
		}
		paths = append(paths, change.Path)
	}
	return []difference.Effect{{Consequence: difference.NotComparable,
		Text: "depends on values of Secrets, which the recording does not have: " + strings.Join(paths, ", ")}}, nil
}

// finish sorts the differences and adds notes.
func (r *replay) finish() {
	done := r.result.Same
	for _, count := range r.result.Counts {
		done += count
	}
	for _, name := range slices.Sorted(maps.Keys(r.missing)) {
		r.note(r.missing[name], "of %s: the files do not have the controller", name)
	}
	r.result.NotRun = r.result.Requests - done - r.unknown
	if done == 0 {
		r.result.Notes = append(r.result.Notes, "nothing was compared")
	}
	r.note(int(r.totals.Dropped), "came too fast and are not in the recording")
	r.note(int(r.totals.Oversized), "were too large for the recording")
	r.note(r.changed, "had another response than the same request before: the logic changed while it was recorded, or is not "+
		"deterministic; the latest counts")
	for _, d := range r.differences {
		r.result.Differences = append(r.result.Differences, *d)
	}
	slices.SortFunc(r.result.Differences, func(a, b Difference) int {
		return cmp.Or(a.Consequence.Severity()-b.Consequence.Severity(), a.Time.Compare(b.Time), cmp.Compare(a.key(), b.key()))
	})
}

// note adds a note about calls.
func (r *replay) note(calls int, format string, args ...any) {
	if calls > 0 {
		noun := "calls"
		if calls == 1 {
			noun = "call"
		}
		r.result.Notes = append(r.result.Notes, fmt.Sprintf("%d %s ", calls, noun)+fmt.Sprintf(format, args...))
	}
}
