package cli

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

	"github.com/setpoint-dev/setpoint/internal/dashboard/model"
	"github.com/setpoint-dev/setpoint/internal/dashboard/timeline"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// whyFlags are what `setpoint why` can be told.
type whyFlags struct {
	readFlags
	runs int
	full bool
}

func (p *program) whyCommand() *cobra.Command {
	f := &whyFlags{readFlags: readFlags{output: oneOf(asText, asJSON, asYAML)}}
	c := &cobra.Command{
		Use:   "why KIND/NAME",
		Short: "Show the reconcile history of an object, and what caused it",
		Long: `Show how an object is doing, and its reconcile history, newest last: what
triggered each run, what changed since the hook was called before, the response,
what was written, what failed, and when the next retry is. Runs that failed in
the same way are shown once, with the first of them, which says what caused it.

The kind is written as kubectl takes it: team, teams, teams.example.com, or a
short name.

` + discoveryHelp,
		Example: `  setpoint why team/red -n shop
  setpoint why team/red --runs 1 --full     # with all that was asked and answered
  setpoint why team/red -w                  # go on, and tell what happens
  setpoint why team/red -o json`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usageError{errors.New("no object is named; write KIND/NAME")}
			}
			_, _, err := parseObject(args)
			return err
		},
		ValidArgsFunction: complete(&f.cluster, &f.namespace, completer.object),
		RunE:              func(c *cobra.Command, args []string) error { return p.why(c.Context(), f, args) },
	}
	f.register(c)
	c.Flags().IntVar(&f.runs, "runs", 10, "how many runs to show, the latest ones; runs that failed alike count as one")
	c.Flags().BoolVar(&f.full, "full", false, "tell all of it: requests and replies, and every change")
	return c
}

func (p *program) why(ctx context.Context, f *whyFlags, args []string) error {
	if f.runs < 1 {
		return usageError{fmt.Errorf("--runs must be at least 1, not %d", f.runs)}
	}
	r, reader, ref, err := f.openObject(ctx, p, args)
	if err != nil {
		return err
	}
	w := &explainer{session: r, reader: reader, ref: ref, runs: f.runs, full: f.full}
	return r.follow(ctx, w.show)
}

// explainer explains one object.
type explainer struct {
	*session
	*reader
	ref  model.Ref
	runs int
	full bool
	// shown are the runs that were told of already, ended the deletion as it was told.
	shown         map[string]bool
	shownDeletion string
}

// explanation is what is known of an object.
type explanation struct {
	Object model.Ref      `json:"object"`
	States []visibleState `json:"cares"`
	// Runs are the latest ones, the latest last.
	Runs []runDetails `json:"runs"`
	// Deletion ends the history; nil where there is none.
	Deletion *timeline.Deletion `json:"deletion,omitempty"`
	// Caveats say what processes that care cannot tell of it.
	Caveats []string `json:"caveats,omitempty"`
	// stored is the object; nil where it is gone.
	stored *object.Object
	// neverStored says that it is gone since its creation was denied.
	neverStored bool
	// entries are the latest ones in the order of printing, the latest last.
	entries []historyEntry
}

// historyEntry is an entry of the history: a run, or several that failed alike.
type historyEntry struct {
	timeline.Entry
	// first is the run with which it began; nil where that was told before.
	first *runDetails
	// deletedBy is who deleted the object, of the record of a deletion.
	deletedBy string
}

// runDetails is a run and what was asked before.
type runDetails struct {
	model.Run
	// before are the runs in which the same was asked before, by their ids.
	before map[uint64]model.Run
}

// runKey tells runs of all processes apart.
func runKey(r *model.Run) string {
	return fmt.Sprint(r.Process, " ", r.ID, " ", r.Began.UnixNano())
}

// collect asks the API server whether the user may see the object, and then the
// processes.
func (w *explainer) collect(ctx context.Context) (explanation, error) {
	stored, err := w.read(ctx, w.ref)
	if err != nil {
		return explanation{}, err
	}
	a := explanation{Object: w.ref, States: []visibleState{}, Runs: []runDetails{}, stored: stored}
	if stored != nil {
		a.Object.UID = stored.UID()
	}
	results, err := queryAll(ctx, w.session, w.query)
	var runs []model.Run
	sources := map[string]model.Source{}
	for _, known := range results {
		for _, care := range w.permissions.states(ctx, known.Value.states) {
			care.Standby = known.Value.standby
			a.States = append(a.States, care)
		}
		if known.Value.caveat != "" {
			a.Caveats = append(a.Caveats, known.Value.caveat)
		}
		for _, run := range known.Value.runs {
			runs = append(runs, w.permissions.redact(ctx, run))
			sources[runKey(&run)] = known.Source
		}
	}
	a.dropStandbys()
	runs = timeline.Sort(runs)
	a.setDeletion(stored, runs)
	full := func(run *model.Run) *runDetails {
		found := w.permissions.redactRun(ctx, w.fullRun(ctx, sources[runKey(run)], *run))
		return &found
	}
	if w.structured() {
		for _, run := range slices.Backward(runs[:min(len(runs), w.runs)]) {
			a.Runs = append(a.Runs, *full(&run))
		}
	} else {
		a.entries = w.entries(runs, full)
	}
	return a, cmp.Or(err, w.permissions.takeErr())
}

// setDeletion says what is known of the deletion of the object.
func (a *explanation) setDeletion(stored *object.Object, runs []model.Run) {
	switch {
	case stored != nil:
		var timestamp time.Time
		var grace *int64
		_ = json.Unmarshal(stored.Field("metadata", "deletionTimestamp"), &timestamp) // None is the zero time.
		_ = json.Unmarshal(stored.Field("metadata", "deletionGracePeriodSeconds"), &grace)
		a.Deletion = timeline.PendingDeletion(timestamp, grace, stored.Finalizers())
	case timeline.NeverStored(runs):
		a.neverStored = true
	default:
		a.Deletion = timeline.CompletedDeletion(runs)
	}
}

// dropStandbys leaves out what processes say that stand by for one that has answered.
func (a *explanation) dropStandbys() {
	leads := func(c visibleState) bool {
		return slices.ContainsFunc(a.States, func(other visibleState) bool { return other.Controller == c.Controller && !other.Standby })
	}
	before := len(a.States)
	a.States = slices.DeleteFunc(a.States, func(c visibleState) bool { return c.Standby && leads(c) })
	if len(a.States) < before && !slices.ContainsFunc(a.States, func(c visibleState) bool { return c.Standby }) {
		a.Caveats = nil
	}
}

// structured says that the output is for programs.
func (w *explainer) structured() bool { return w.output.value == asJSON || w.output.value == asYAML }

// entries are the latest ones of runs, the latest first, as far as they were not told.
func (w *explainer) entries(runs []model.Run, full func(*model.Run) *runDetails) []historyEntry {
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
		entry.Earlier = slices.DeleteFunc(entry.Earlier, func(r model.Run) bool { return w.shown[runKey(&r)] })
		fresh = append(fresh, entry)
	}
	return fresh
}

// markShown keeps what is printed now.
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

// processView is what one process knows of an object.
type processView struct {
	states []model.ObjectState
	runs   []model.Run
	// caveat is what the process cannot tell; "" for nothing. elsewhere says that another
	// one does its work.
	caveat  string
	standby bool
}

func (w *explainer) query(ctx context.Context, s model.Source) (k processView, err error) {
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

// fullRun is a run with all that is kept of it, as far as it is still kept.
func (w *explainer) fullRun(ctx context.Context, s model.Source, run model.Run) runDetails {
	a := runDetails{Run: run, before: map[uint64]model.Run{}}
	full := func(id uint64) (model.Run, error) {
		return model.QueryOne(ctx, w.timeouts, s, func(ctx context.Context, s model.Source) (model.Run, error) { return s.Run(ctx, id) })
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

// redactRun is a run as far as the user may read it, and what was asked before too.
func (r *permissions) redactRun(ctx context.Context, a runDetails) runDetails {
	a.Run = r.redact(ctx, a.Run)
	for id, before := range a.before {
		a.before[id] = r.redact(ctx, before)
	}
	return a
}

// show tells what is known, and what was not told before.
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
	if w.structured() {
		if !first && len(a.Runs) == 0 && !news {
			return nil
		}
		return encode(w.stdout, w.output.value, a)
	}
	t := printer{out: w.stdout, full: w.full, color: wantsColor(w.stdout), now: time.Now()}
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

// explainUnmanaged says that no controller cares, and who does something about the object.
func (w *explainer) explainUnmanaged(ctx context.Context, a explanation) error {
	controllers, err := w.controllers(ctx)
	if err != nil {
		return err
	}
	controllers, _ = w.permissions.controllers(ctx, controllers)
	if declared := declaredBy(controllers, w.ref); declared != nil {
		printer{out: w.stdout, full: w.full, now: time.Now()}.printController(*declared)
		return nil
	}
	if a.stored == nil {
		return fmt.Errorf("%s is not there, and nothing is kept of what was done about it", nameOf(w.ref))
	}
	hints := []string{w.managerHint(ctx, controllers, a.stored)}
	for i := range controllers {
		if refusal := controllers[i].Refusal(); refusal != "" {
			hints = append(hints, fmt.Sprintf("hint: the controller %s is refused, and manages nothing: %s", clean(controllers[i].Name), clean(refusal)))
		}
	}
	return errorWithHint{fmt.Errorf("%s: %w, and no reconcile history is kept of it", nameOf(w.ref), errNotManaged), strings.Join(hints, "\n")}
}

// declaredBy is the controller that an object declares; nil for none.
func declaredBy(all []model.Controller, ref model.Ref) *model.Controller {
	for _, c := range all {
		if d := c.Declared; d != nil && d.Group == ref.Group && d.Kind.Kind == ref.Kind.Kind && d.Name == ref.Name {
			return &c
		}
	}
	return nil
}

// managerHint says what to ask instead.
func (w *explainer) managerHint(ctx context.Context, all []model.Controller, stored *object.Object) string {
	is := func(k model.Kind) bool { return k.Group == w.ref.Group && k.Kind == w.ref.Kind.Kind }
	for _, c := range all {
		if slices.ContainsFunc(c.Kinds, is) {
			return fmt.Sprintf("%s manages some of its kind; `setpoint get %[1]s -A` shows which", clean(c.Name))
		}
	}
	if above := w.managedOwner(ctx, stored); above != nil {
		return fmt.Sprintf("it belongs to %s; `setpoint why %s` shows the history of that", nameOf(*above), argOf(*above))
	}
	return "`setpoint get` shows the controllers that run"
}

// maxOwners is how many owners are followed upwards.
const maxOwners = 10

// managedOwner is the nearest owner of an object that a controller manages; if none is, the
// first owner; nil without one.
func (w *explainer) managedOwner(ctx context.Context, stored *object.Object) *model.Ref {
	var nearest *model.Ref
	for range maxOwners {
		owner, owned := stored.Controller()
		if !owned {
			break
		}
		word := strings.TrimSuffix(strings.ToLower(owner.Kind)+"."+object.GroupOf(owner.APIVersion), ".")
		ref, err := w.find(ctx, word, owner.Name, w.ref.Namespace)
		if err != nil {
			break
		}
		if nearest == nil {
			nearest = &ref
		}
		states, err := w.states(ctx, ref)
		if err == nil && len(states) > 0 {
			return &ref
		}
		if stored, err = w.read(ctx, ref); err != nil || stored == nil {
			break
		}
	}
	return nearest
}
