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

	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/timeline"
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

` + reachHelp,
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
	w := &asking{reading: r, reader: reader, ref: ref, runs: f.runs, full: f.full}
	return r.follow(ctx, w.show)
}

// asking explains one object.
type asking struct {
	*reading
	*reader
	ref  inspect.Ref
	runs int
	full bool
	// told are the runs that were told of already, ended the deletion as it was told.
	told  map[string]bool
	ended string
}

// account is what is known of an object.
type account struct {
	Object inspect.Ref `json:"object"`
	Cares  []readable  `json:"cares"`
	// Runs are the latest ones, the latest last.
	Runs []runAccount `json:"runs"`
	// Deletion ends the history; nil where there is none.
	Deletion *timeline.Ending `json:"deletion,omitempty"`
	// Caveats say what processes that care cannot tell of it.
	Caveats []string `json:"caveats,omitempty"`
	// stored is the object; nil where it is gone.
	stored *object.Object
	// neverStored says that it is gone since its creation was denied.
	neverStored bool
	// entries are the latest ones in the order of printing, the latest last.
	entries []entryAccount
}

// entryAccount is an entry of the history: a run, or several that failed alike.
type entryAccount struct {
	timeline.Entry
	// first is the run with which it began; nil where that was told before.
	first *runAccount
	// deletedBy is who deleted the object, of the record of a deletion.
	deletedBy string
}

// runAccount is a run and what was asked before.
type runAccount struct {
	inspect.Run
	// before are the runs in which the same was asked before, by their ids.
	before map[uint64]inspect.Run
}

// keyOf tells runs of all processes apart.
func keyOf(r *inspect.Run) string {
	return fmt.Sprint(r.Process, " ", r.ID, " ", r.Began.UnixNano())
}

// learn asks the API server whether the user may see the object, and then the
// processes.
func (w *asking) learn(ctx context.Context) (account, error) {
	stored, err := w.read(ctx, w.ref)
	if err != nil {
		return account{}, err
	}
	a := account{Object: w.ref, Cares: []readable{}, Runs: []runAccount{}, stored: stored}
	if stored != nil {
		a.Object.UID = stored.UID()
	}
	answers, err := each(ctx, w.reading, w.ask)
	var runs []inspect.Run
	sources := map[string]inspect.Source{}
	for _, known := range answers {
		for _, care := range w.rights.cares(ctx, known.Value.cares) {
			care.Elsewhere = known.Value.elsewhere
			a.Cares = append(a.Cares, care)
		}
		if known.Value.caveat != "" {
			a.Caveats = append(a.Caveats, known.Value.caveat)
		}
		for _, run := range known.Value.runs {
			runs = append(runs, w.rights.run(ctx, run))
			sources[keyOf(&run)] = known.Source
		}
	}
	a.leaveStandbys()
	runs = timeline.Ordered(runs)
	a.end(stored, runs)
	full := func(run *inspect.Run) *runAccount {
		found := w.rights.account(ctx, w.whole(ctx, sources[keyOf(run)], *run))
		return &found
	}
	if w.structured() {
		for _, run := range slices.Backward(runs[:min(len(runs), w.runs)]) {
			a.Runs = append(a.Runs, *full(&run))
		}
	} else {
		a.entries = w.entries(runs, full)
	}
	return a, cmp.Or(err, w.rights.sure())
}

// end says what is known of the deletion of the object.
func (a *account) end(stored *object.Object, runs []inspect.Run) {
	switch {
	case stored != nil:
		var timestamp time.Time
		var grace *int64
		_ = json.Unmarshal(stored.Field("metadata", "deletionTimestamp"), &timestamp) // None is the zero time.
		_ = json.Unmarshal(stored.Field("metadata", "deletionGracePeriodSeconds"), &grace)
		a.Deletion = timeline.Deleting(timestamp, grace, stored.Finalizers())
	case timeline.NeverStored(runs):
		a.neverStored = true
	default:
		a.Deletion = timeline.Gone(runs)
	}
}

// leaveStandbys leaves out what processes say that stand by for one that has answered.
func (a *account) leaveStandbys() {
	leads := func(c readable) bool {
		return slices.ContainsFunc(a.Cares, func(other readable) bool { return other.Controller == c.Controller && !other.Elsewhere })
	}
	before := len(a.Cares)
	a.Cares = slices.DeleteFunc(a.Cares, func(c readable) bool { return c.Elsewhere && leads(c) })
	if len(a.Cares) < before && !slices.ContainsFunc(a.Cares, func(c readable) bool { return c.Elsewhere }) {
		a.Caveats = nil
	}
}

// structured says that the output is for programs.
func (w *asking) structured() bool { return w.output.value == asJSON || w.output.value == asYAML }

// entries are the latest ones of runs, the latest first, as far as they were not told.
func (w *asking) entries(runs []inspect.Run, full func(*inspect.Run) *runAccount) []entryAccount {
	all := timeline.Entries(runs)
	all = all[:min(len(all), w.runs)]
	var fresh []entryAccount
	for _, each := range slices.Backward(all) {
		if w.told[keyOf(&each.Run)] {
			continue
		}
		entry := entryAccount{Entry: each, deletedBy: timeline.DeletedBy(runs, &each.Run)}
		if first := each.First(); !w.told[keyOf(first)] {
			entry.first = full(first)
		}
		entry.Earlier = slices.DeleteFunc(entry.Earlier, func(r inspect.Run) bool { return w.told[keyOf(&r)] })
		fresh = append(fresh, entry)
	}
	return fresh
}

// note keeps what is printed now.
func (w *asking) note(a *account) {
	for i := range a.Runs {
		w.told[keyOf(&a.Runs[i].Run)] = true
	}
	for i := range a.entries {
		e := &a.entries[i]
		w.told[keyOf(&e.Run)] = true
		for k := range e.Earlier {
			w.told[keyOf(&e.Earlier[k])] = true
		}
	}
}

// knowledge is what one process knows of an object.
type knowledge struct {
	cares []inspect.Care
	runs  []inspect.Run
	// caveat is what the process cannot tell; "" for nothing. elsewhere says that another
	// one does its work.
	caveat    string
	elsewhere bool
}

func (w *asking) ask(ctx context.Context, s inspect.Source) (k knowledge, err error) {
	if k.cares, err = s.About(ctx, w.ref); err != nil {
		return k, err
	}
	if len(k.cares) > 0 {
		process, err := s.Process(ctx)
		if err != nil {
			return k, err
		}
		k.caveat, k.elsewhere = process.Caveat(), process.StandsBy()
	}
	k.runs, err = s.Runs(ctx, w.ref, 0)
	return k, err
}

// whole is a run with all that is kept of it, as far as it is still kept.
func (w *asking) whole(ctx context.Context, s inspect.Source, run inspect.Run) runAccount {
	a := runAccount{Run: run, before: map[uint64]inspect.Run{}}
	full := func(id uint64) (inspect.Run, error) {
		return inspect.AskOne(ctx, w.patience, s, func(ctx context.Context, s inspect.Source) (inspect.Run, error) { return s.Run(ctx, id) })
	}
	if found, err := full(run.ID); err == nil {
		a.Run = found
	}
	for _, step := range a.Steps {
		if step.Ask == nil || step.Ask.Previous == 0 {
			continue
		}
		if before, err := full(step.Ask.Previous); err == nil {
			a.before[step.Ask.Previous] = before
		}
	}
	return a
}

// account is a run as far as the user may read it, and what was asked before too.
func (r *rights) account(ctx context.Context, a runAccount) runAccount {
	a.Run = r.run(ctx, a.Run)
	for id, before := range a.before {
		a.before[id] = r.run(ctx, before)
	}
	return a
}

// show tells what is known, and what was not told before.
func (w *asking) show(ctx context.Context) error {
	a, err := w.learn(ctx)
	if err != nil {
		return err
	}
	first := w.told == nil
	if first {
		w.told = map[string]bool{}
	}
	a.Runs = slices.DeleteFunc(a.Runs, func(r runAccount) bool { return w.told[keyOf(&r.Run)] })
	w.note(&a)
	news := a.Deletion != nil && a.Deletion.String() != w.ended
	if news {
		w.ended = a.Deletion.String()
	}
	if w.structured() {
		if !first && len(a.Runs) == 0 && !news {
			return nil
		}
		return encode(w.stdout, w.output.value, a)
	}
	t := teller{out: w.stdout, full: w.full, color: wantsColor(w.stdout), now: time.Now()}
	if first && len(a.Cares)+len(a.entries) == 0 {
		return w.nobody(ctx, a)
	}
	t.tell(a, first)
	if news && a.Deletion.At.IsZero() && len(a.entries)+len(w.told) > 0 {
		t.tellDeletion(a.Deletion)
	}
	if first && len(a.entries) > 0 {
		t.advise(a)
	}
	return nil
}

// nobody says that no controller cares, and who does something about the object.
func (w *asking) nobody(ctx context.Context, a account) error {
	controllers, err := w.controllers(ctx)
	if err != nil {
		return err
	}
	controllers, _ = w.rights.controllers(ctx, controllers)
	if declared := declaredBy(controllers, w.ref); declared != nil {
		teller{out: w.stdout, full: w.full, now: time.Now()}.tellController(*declared)
		return nil
	}
	if a.stored == nil {
		return fmt.Errorf("%s is not there, and nothing is kept of what was done about it", nameOf(w.ref))
	}
	hints := []string{w.whoCares(ctx, controllers, a.stored)}
	for i := range controllers {
		if refusal := controllers[i].Refusal(); refusal != "" {
			hints = append(hints, fmt.Sprintf("hint: the controller %s is refused, and manages nothing: %s", clean(controllers[i].Name), clean(refusal)))
		}
	}
	return hinted{fmt.Errorf("%s: %w, and no reconcile history is kept of it", nameOf(w.ref), errNobodyCares), strings.Join(hints, "\n")}
}

// declaredBy is the controller that an object declares; nil for none.
func declaredBy(all []inspect.Controller, ref inspect.Ref) *inspect.Controller {
	for _, c := range all {
		if d := c.Declared; d != nil && d.Group == ref.Group && d.Kind.Kind == ref.Kind.Kind && d.Name == ref.Name {
			return &c
		}
	}
	return nil
}

// whoCares says what to ask instead.
func (w *asking) whoCares(ctx context.Context, all []inspect.Controller, stored *object.Object) string {
	is := func(k inspect.Kind) bool { return k.Group == w.ref.Group && k.Kind == w.ref.Kind.Kind }
	for _, c := range all {
		if slices.ContainsFunc(c.Kinds, is) {
			return fmt.Sprintf("%s manages some of its kind; `setpoint get %[1]s -A` shows which", clean(c.Name))
		}
	}
	if above := w.above(ctx, stored); above != nil {
		return fmt.Sprintf("it belongs to %s; `setpoint why %s` shows the history of that", nameOf(*above), argOf(*above))
	}
	return "`setpoint get` shows the controllers that run"
}

// maxAbove is how many owners are followed upwards.
const maxAbove = 10

// above is the nearest owner of an object that a controller manages; if none is, the
// first owner; nil without one.
func (w *asking) above(ctx context.Context, stored *object.Object) *inspect.Ref {
	var nearest *inspect.Ref
	for range maxAbove {
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
		cares, err := w.about(ctx, ref)
		if err == nil && len(cares) > 0 {
			return &ref
		}
		if stored, err = w.read(ctx, ref); err != nil || stored == nil {
			break
		}
	}
	return nearest
}
