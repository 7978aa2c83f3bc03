// Package why is `setpoint why`: the state of an object and its reconcile history, as text, JSON or test cases.
package why

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	setpoint "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/internal/cli/client"
	"github.com/setpoint-dev/setpoint/internal/cli/command"
	"github.com/setpoint-dev/setpoint/internal/cli/output"
	"github.com/setpoint-dev/setpoint/internal/cli/processes"
	"github.com/setpoint-dev/setpoint/internal/dashboard/timeline"
	"github.com/setpoint-dev/setpoint/internal/dashboard/userclient"
	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// whyFlags are the flags of `setpoint why`.
type whyFlags struct {
	processes.ReadFlags
	runs int
	full bool
	// cases prints the latest run as a case.
	cases bool
}

// Command returns `setpoint why`.
func Command(p *command.Invocation) *cobra.Command {
	f := &whyFlags{ReadFlags: processes.ReadFlags{Replicas: true, PrintFlags: output.NewTextFlags()}}
	c := &cobra.Command{
		Use:   "why KIND/NAME",
		Short: "Show the reconcile history of an object, and what caused it",
		Long: `Show the state of an object and its reconcile history, newest last: what triggered each
run, what changed since the previous call of the hook, the response, what was written,
what failed, and when the next retry is. Identical failures are shown once, with the
first of them, which has the cause. Reviews are those of all replicas, as in 'setpoint get
reviews'.

` + client.KindHelp + `
` + processes.DiscoveryHelp,
		Example: `  setpoint why team/red -n shop
  setpoint why team/red --runs 1 --full     # with complete requests and responses
  setpoint why team/red --case >red.yaml    # the latest call as a case of 'setpoint test'
  setpoint why team/red -w                  # watch for new runs
  setpoint why team/red -o json`,
		Args:              client.ObjectArgs,
		ValidArgsFunction: client.Complete(&f.Cluster, &f.Namespace, client.CompleteObject),
		RunE: func(c *cobra.Command, args []string) error {
			if f.cases && !c.Flags().Changed("runs") {
				f.runs = 1
			}
			return run(c.Context(), p, f, args)
		},
	}
	f.Register(c)
	c.Flags().IntVar(&f.runs, "runs", 10, "number of latest runs to show; identical failures count as one")
	c.Flags().BoolVar(&f.full, "full", false, "show complete requests, responses and changes")
	c.Flags().BoolVar(&f.cases, "case", false, "print the calls of the latest run as cases of 'setpoint test', with --runs those of "+
		"more runs; tokens stand for values of Secrets")
	return c
}

func run(ctx context.Context, p *command.Invocation, f *whyFlags, args []string) error {
	if f.runs < 1 {
		return command.UsageErrorf("--runs must be at least 1, not %d", f.runs)
	}
	if f.cases && (f.Watch || f.Structured() || f.full) {
		return command.UsageErrorf("--case excludes -w, -o and --full")
	}
	r, ref, err := f.OpenObject(ctx, p, args)
	if err != nil {
		return err
	}
	w := &explainer{Session: r, ref: ref, runs: f.runs, full: f.full}
	if f.cases {
		return w.printCases(ctx)
	}
	return r.Follow(ctx, w.show)
}

// explainer explains one object.
type explainer struct {
	*processes.Session
	ref  object.Ref
	runs int
	full bool
	// shown are the runs already printed, shownDeletion the deletion already printed.
	shown         map[string]bool
	shownDeletion string
}

// explanation is everything known about an object.
type explanation struct {
	Object object.Ref            `json:"object"`
	States []client.VisibleState `json:"states"`
	// Runs are the latest runs, newest last.
	Runs []runDetails `json:"runs"`
	// Deletion is set for an object that is deleted or being deleted.
	Deletion *timeline.Deletion `json:"deletion,omitempty"`
	// Caveats name what the processes do not know.
	Caveats []string `json:"caveats,omitempty"`
	// stored is the object; nil if it does not exist.
	stored *object.Object
	// neverStored reports that the creation of the object was denied.
	neverStored bool
	// lastDenial is the latest request to change the object, if it was denied.
	lastDenial *inspect.Run
	// entries are the latest entries, newest last.
	entries []historyEntry
}

// historyEntry is one run, or several with the same failure.
type historyEntry struct {
	timeline.Entry
	// first is the first run of the entry; nil if it is printed already.
	first *runDetails
	// deletedBy is the user who deleted the object.
	deletedBy string
}

// runDetails is a run with the runs before it that made the same calls.
type runDetails struct {
	inspect.Run
	// before are those runs, by ID.
	before map[uint64]inspect.Run
	// missing are the rights without which objects in the runs are hidden.
	missing []string
}

// runKey identifies a run across processes.
func runKey(r *inspect.Run) string {
	return fmt.Sprint(r.Process, " ", r.ID, " ", r.Began.UnixNano())
}

// collect reads the object from the API server, which checks that the user may see it, and
// its history from the processes.
func (w *explainer) collect(ctx context.Context) (explanation, error) {
	stored, err := w.Client.Read(ctx, w.ref)
	if err != nil {
		return explanation{}, err
	}
	a := explanation{Object: w.ref, States: []client.VisibleState{}, Runs: []runDetails{}, stored: stored}
	if stored != nil {
		a.Object.UID = stored.UID()
	}
	results, err := processes.QueryAll(ctx, w.Session, w.query)
	runs, sources := runsOf(results)
	for _, known := range results {
		for _, state := range w.Client.States(ctx, known.Value.states) {
			state.Standby = known.Value.standby
			a.States = append(a.States, state)
		}
		if known.Value.caveat != "" {
			a.Caveats = append(a.Caveats, known.Value.caveat)
		}
	}
	a.dropStandbys()
	for i := range runs {
		runs[i] = w.Client.Redact(ctx, runs[i])
	}
	runs = timeline.Sort(runs)
	for i := range a.States {
		if state := &a.States[i].ObjectState; state.State == inspect.StateFailing {
			timeline.IncidentOf(runs, state).Extend(state)
		}
	}
	a.setDeletion(stored, runs)
	a.lastDenial = inspect.LastDenial(runs)
	full := func(run *inspect.Run) *runDetails {
		found := redactRun(ctx, w.Client, w.fullRun(ctx, sources[runKey(run)], *run))
		return &found
	}
	if w.Structured() {
		for _, run := range slices.Backward(runs[:min(len(runs), w.runs)]) {
			a.Runs = append(a.Runs, *full(&run))
		}
	} else {
		a.entries = w.entries(runs, full)
	}
	return a, cmp.Or(err, w.Client.TakeErr())
}

// runsOf returns the runs that processes know, and the process of each by its key.
func runsOf(results []inspect.Result[processView]) (runs []inspect.Run, sources map[string]inspect.Source) {
	sources = map[string]inspect.Source{}
	for _, known := range results {
		runs = append(runs, known.Value.runs...)
		for i := range known.Value.runs {
			sources[runKey(&known.Value.runs[i])] = known.Source
		}
	}
	return runs, sources
}

// setDeletion sets the deletion of the object, if there is one.
func (a *explanation) setDeletion(stored *object.Object, runs []inspect.Run) {
	switch {
	case stored != nil:
		var timestamp time.Time
		var grace *int64
		_ = json.Unmarshal(stored.Field("metadata", "deletionTimestamp"), &timestamp) // A missing one is the zero time.
		_ = json.Unmarshal(stored.Field("metadata", "deletionGracePeriodSeconds"), &grace)
		a.Deletion = timeline.PendingDeletion(timestamp, grace, stored.Finalizers())
	case timeline.NeverStored(runs):
		a.neverStored = true
	default:
		a.Deletion = timeline.CompletedDeletion(runs)
	}
}

// dropStandbys removes the states from standbys if their leader responded.
func (a *explanation) dropStandbys() {
	leads := func(c client.VisibleState) bool {
		return slices.ContainsFunc(a.States, func(other client.VisibleState) bool {
			return other.Controller == c.Controller &&
				!other.Standby
		})
	}
	before := len(a.States)
	a.States = slices.DeleteFunc(a.States, func(c client.VisibleState) bool { return c.Standby && leads(c) })
	if len(a.States) < before && !slices.ContainsFunc(a.States, func(c client.VisibleState) bool { return c.Standby }) {
		a.Caveats = nil
	}
}

// entries returns the latest entries that are not printed yet, newest last. The runs are
// newest first.
func (w *explainer) entries(runs []inspect.Run, full func(*inspect.Run) *runDetails) []historyEntry {
	all := timeline.Entries(runs)
	all = all[:min(len(all), w.runs)]
	var fresh []historyEntry
	for _, each := range slices.Backward(all) {
		if w.shown[runKey(&each.Run)] {
			continue
		}
		entry := historyEntry{Entry: each, deletedBy: timeline.DeletedBy(runs, &each.Run)}
		if first := each.First(); !w.shown[runKey(first)] {
			entry.first = full(first)
		}
		entry.Earlier = slices.DeleteFunc(entry.Earlier, func(r inspect.Run) bool { return w.shown[runKey(&r)] })
		fresh = append(fresh, entry)
	}
	return fresh
}

// markShown records what is printed now.
func (w *explainer) markShown(a *explanation) {
	for i := range a.Runs {
		w.shown[runKey(&a.Runs[i].Run)] = true
	}
	for i := range a.entries {
		e := &a.entries[i]
		w.shown[runKey(&e.Run)] = true
		for k := range e.Earlier {
			w.shown[runKey(&e.Earlier[k])] = true
		}
	}
}

// processView is what one process knows about an object.
type processView struct {
	states []inspect.ObjectState
	runs   []inspect.Run
	// caveat is what the process does not know, standby whether another one leads.
	caveat  string
	standby bool
}

func (w *explainer) query(ctx context.Context, s inspect.Source) (k processView, err error) {
	if k.states, err = s.States(ctx, w.ref); err != nil {
		return k, err
	}
	if len(k.states) > 0 {
		process, err := s.Process(ctx)
		if err != nil {
			return k, err
		}
		k.caveat, k.standby = process.Caveat(), process.IsStandby()
	}
	k.runs, err = s.Runs(ctx, w.ref, 0)
	return k, err
}

// fullRun returns a run with complete calls, and the runs before it, as far as they are
// kept.
func (w *explainer) fullRun(ctx context.Context, s inspect.Source, run inspect.Run) runDetails {
	a := runDetails{Run: run, before: map[uint64]inspect.Run{}}
	full := func(id uint64) (inspect.Run, error) {
		return inspect.QueryOne(ctx, w.Timeouts, s, func(ctx context.Context, s inspect.Source) (inspect.Run,
			error) {
			return s.Run(ctx, id, false)
		})
	}
	if found, err := full(run.ID); err == nil {
		a.Run = found
	}
	for _, step := range a.Steps {
		if step.Call == nil || step.Call.Previous == 0 {
			continue
		}
		if before, err := full(step.Call.Previous); err == nil {
			a.before[step.Call.Previous] = before
		}
	}
	return a
}

// redactRun removes what the user may not read.
func redactRun(ctx context.Context, r *client.Client, a runDetails) runDetails {
	may := func(kind object.Kind, namespace string) bool {
		if kind.Plural == "" { // Not of an object that the run has written. A response may omit the namespace.
			if served, err := r.API.FindKind(ctx, kind.Resource()); err == nil {
				kind, namespace = served, cmp.Or(namespace, served.Within(a.Object.Namespace))
			}
		}
		can := r.Can(ctx, "get", kind, namespace, "")
		if !can {
			right := userclient.Permission{Verb: "get", Resource: cmp.Or(kind.Plural, kind.Kind), Group: kind.Group, Namespace: namespace}
			a.missing = lists.Union(a.missing, []string{right.Missing()})
		}
		return can
	}
	a.Run = inspect.Redact(a.Run, may)
	for id, before := range a.before {
		a.before[id] = inspect.Redact(before, may)
	}
	return a
}

// show prints the explanation, or what is new in it.
func (w *explainer) show(ctx context.Context) error {
	a, err := w.collect(ctx)
	if err != nil {
		return err
	}
	first := w.shown == nil
	if first {
		w.shown = map[string]bool{}
	}
	a.Runs = slices.DeleteFunc(a.Runs, func(r runDetails) bool { return w.shown[runKey(&r.Run)] })
	w.markShown(&a)
	news := a.Deletion != nil && a.Deletion.String() != w.shownDeletion
	if news {
		w.shownDeletion = a.Deletion.String()
	}
	if w.Structured() {
		if !first && len(a.Runs) == 0 && !news {
			return nil
		}
		return w.PrintValue(w.Stdout, a)
	}
	t := printer{out: w.Stdout, full: w.full, color: w.WantsColor(w.Stdout), now: time.Now()}
	if first && len(a.States)+len(a.entries) == 0 {
		return w.explainUnmanaged(ctx, a)
	}
	t.print(a, first)
	if news && a.Deletion.At.IsZero() && len(a.entries)+len(w.shown) > 0 {
		t.printDeletion(a.Deletion)
	}
	if first && len(a.entries) > 0 {
		t.printAdvice(a)
	}
	return nil
}

// explainUnmanaged returns an error for an object without a controller, with a hint to
// those that could manage it.
func (w *explainer) explainUnmanaged(ctx context.Context, a explanation) error {
	controllers, err := w.Controllers(ctx)
	if err != nil {
		return err
	}
	controllers, _ = w.Client.Controllers(ctx, controllers)
	for _, c := range controllers {
		if d := c.Declared; d != nil && d.Group == w.ref.Group && d.Kind.Kind == w.ref.Kind.Kind && d.Name == w.ref.Name {
			printer{out: w.Stdout, full: w.full, now: time.Now()}.printController(c)
			return nil
		}
	}
	if a.stored == nil {
		return fmt.Errorf("%s not found, and it has no reconcile history", client.NameOf(w.ref))
	}
	hints := []string{w.managerHint(ctx, controllers, a.stored)}
	ours := func(name string) bool { return strings.HasPrefix(name, setpoint.GroupVersion.Group+"/") }
	if a.stored.Deleting() && slices.ContainsFunc(a.stored.Finalizers(), ours) {
		hints = append(hints, "hint: it waits for a controller that does not run; "+releaseAdvice(w.ref))
	}
	return command.WithHint(fmt.Errorf("%s: %w, and has no reconcile history", client.NameOf(w.ref), errNotManaged),
		strings.Join(hints, "\n"))
}

// managerHint returns the command that is likely to help.
func (w *explainer) managerHint(ctx context.Context, all []inspect.Controller, stored *object.Object) string {
	for _, c := range all {
		if client.ContainsKind(c.Kinds, w.ref.Kind) {
			return fmt.Sprintf("%s manages other objects of this kind; `setpoint get %[1]s -A` lists them", output.Clean(c.Name))
		}
	}
	if owner, owned := stored.Controller(); owned {
		word := strings.TrimSuffix(strings.ToLower(owner.Kind)+"."+object.GroupOf(owner.APIVersion), ".")
		if ref, err := w.Client.Find(ctx, word, owner.Name, w.ref.Namespace); err == nil {
			return fmt.Sprintf("it is owned by %s; see `setpoint why %s`", client.NameOf(ref), client.CommandArg(ref))
		}
	}
	return "`setpoint get` lists the running controllers, and which of them are not accepted"
}

// errNotManaged is returned for an object without a controller.
var errNotManaged = errors.New("not managed by a Setpoint controller")

// printCases prints the calls of the latest runs that made any, the newest last.
func (w *explainer) printCases(ctx context.Context) error {
	if _, err := w.Client.Read(ctx, w.ref); err != nil {
		return err
	}
	results, err := processes.QueryAll(ctx, w.Session, w.query)
	if err != nil {
		return err
	}
	runs, sources := runsOf(results)
	var texts []string
	for _, run := range timeline.Sort(runs) {
		text, err := w.casesOf(ctx, sources[runKey(&run)], run)
		switch {
		case errors.Is(err, inspect.ErrNoCall):
			continue
		case err != nil:
			return fmt.Errorf("run %d of %s: %w", run.ID, client.NameOf(w.ref), cmp.Or(w.Client.TakeErr(), err))
		}
		if texts = append(texts, text); len(texts) == w.runs {
			break
		}
	}
	if len(texts) == 0 {
		return fmt.Errorf("no call of a hook for %s is in memory", client.NameOf(w.ref))
	}
	for i, text := range slices.Backward(texts) {
		if i < len(texts)-1 {
			text = "---\n" + text
		}
		if _, err := fmt.Fprint(w.Stdout, text); err != nil {
			return err
		}
	}
	return nil
}

// casesOf returns the calls of a run as cases.
func (w *explainer) casesOf(ctx context.Context, s inspect.Source, run inspect.Run) (string, error) {
	whole, err := inspect.QueryOne(ctx, w.Timeouts, s, func(ctx context.Context, s inspect.Source) (inspect.Run, error) {
		return s.Run(ctx, run.ID, true)
	})
	if err != nil {
		return "", err
	}
	whole = w.Client.Redact(ctx, whole)
	return inspect.Cases(&whole)
}
