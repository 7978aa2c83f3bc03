package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/setpoint-dev/setpoint/internal/flags"
	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// reviewFlags are the flags of `setpoint get reviews`.
type reviewFlags struct {
	readFlags
	everywhere, denied, failed bool
	operation                  *flags.Choice
	user, text                 string
}

// anyOperation is the default of --operation.
const anyOperation = "any"

func (p *program) getReviewsCommand() *cobra.Command {
	f := &reviewFlags{
		readFlags: readFlags{replicas: true, outputFlags: newOutputFlags(asTable, asWide, asName, asJSON, asYAML)},
		operation: flags.OneOf(anyOperation, "create", "update", "delete", "connect"),
	}
	c := &cobra.Command{
		Use:   "reviews [CONTROLLER] [OBJECT]",
		Short: "List the reviews of admission controllers",
		Long: `List the latest reviews by admission webhooks, newest last: of all controllers, of one,
or of one object, given as NAME or KIND/NAME.

A process keeps up to 1,000 reviews of a controller in memory, and 32 of an object;
denied and failed ones longer than allowed ones. Every replica has the reviews that it
served. The command reads all replicas: in a cluster, the pods of the ReplicaSet or
StatefulSet of the one that holds the Lease, which takes permission to get and list pods.

` + kindHelp + `
` + discoveryHelp,
		Example: `  setpoint get reviews                       # in this namespace
  setpoint get reviews -A --denied           # what was denied, in all namespaces
  setpoint get reviews images pod/web        # the reviews of one pod
  setpoint get reviews images -o wide        # with webhooks, durations and changed fields
  setpoint get reviews -A --user ann -w      # watch the requests of a user`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 2 {
				return usageError{fmt.Errorf("unexpected argument %q", args[2])}
			}
			return checkNames(args[min(1, len(args)):])
		},
		ValidArgsFunction: completeRunning(&f.readFlags, runningWords{controller: func(c *inspect.Controller) bool { return c.Reviews }}),
		RunE:              func(c *cobra.Command, args []string) error { return p.getReviews(c.Context(), f, args) },
	}
	f.register(c)
	set := c.Flags()
	set.BoolVarP(&f.everywhere, "all-namespaces", "A", false, "list reviews of all namespaces")
	set.BoolVar(&f.denied, "denied", false, "list only denied reviews")
	set.BoolVar(&f.failed, "failed", false, "list only reviews without a response, to which the failure policy applied")
	addChoice(c, f.operation, "operation", "", "list only reviews of this operation")
	set.StringVar(&f.user, "user", "", "list only reviews of requests of this `user`")
	set.StringVar(&f.text, "containing", "", "list only reviews with this `text` in the object, the user or the message")
	return c
}

func (p *program) getReviews(ctx context.Context, f *reviewFlags, args []string) error {
	r, err := f.open(ctx, p)
	if err != nil {
		return err
	}
	args = append(args, "", "")
	l := reviewLister{session: r, controllerArg: args[0], everywhere: f.everywhere}
	l.filter = inspect.ReviewFilter{Outcomes: f.outcomes(), User: f.user, Text: strings.ToLower(f.text)}
	if f.operation.Value != anyOperation {
		l.filter.Operation = f.operation.Value
	}
	if err := l.setObject(ctx, args[1]); err != nil {
		return err
	}
	t := r.table(r.stdout)
	return r.follow(ctx, func(ctx context.Context) error { return l.showAll(ctx, t) })
}

// outcomes returns the selected outcomes; none selects all.
func (f *reviewFlags) outcomes() (all []string) {
	if f.denied {
		all = append(all, inspect.ReviewDenied)
	}
	if f.failed {
		all = append(all, inspect.ReviewFailed)
	}
	return all
}

// reviewLister lists reviews.
type reviewLister struct {
	*session
	// controllerArg is the name given by the user; "" for all controllers.
	controllerArg string
	everywhere    bool
	filter        inspect.ReviewFilter
	// warned reports that the warning about hidden reviews was printed, none that no review
	// matched before.
	warned, none bool
}

// setObject selects one object by NAME or KIND/NAME.
func (l *reviewLister) setObject(ctx context.Context, word string) (err error) {
	kind, name, split := strings.Cut(word, "/")
	if !split {
		l.filter.ObjectName = word
		return nil
	}
	l.filter.ObjectName = name
	l.filter.Kind, err = l.permissions.kind(ctx, kind)
	return err
}

// showAll prints the reviews of the selected controllers.
func (l *reviewLister) showAll(ctx context.Context, t *table) error {
	found, err := l.reviewing(ctx)
	if err != nil {
		return err
	}
	return l.show(ctx, t, found)
}

// reviewing returns the controllers with admission webhooks that the user may see, in all replicas.
func (l *reviewLister) reviewing(ctx context.Context) ([]runningController, error) {
	if l.controllerArg != "" {
		c, _, err := l.controller(ctx, l.controllerArg, l.filter.ObjectName)
		switch {
		case err != nil:
			return nil, err
		case !c.Reviews:
			return nil, errorWithHint{fmt.Errorf("%s has no admission webhooks", clean(c.Name)),
				"`setpoint get reviews` lists the reviews of all controllers"}
		}
		return l.replicasOf(ctx, c.Name)
	}
	all, err := l.controllersOfReplicas(ctx)
	if err != nil {
		return nil, err
	}
	namespace := l.target.Namespace
	if l.everywhere {
		namespace = ""
	}
	all = slices.DeleteFunc(all, func(c runningController) bool {
		return !c.Reviews || !inspect.CanView(&c.Controller, l.permissions.accessCheck(ctx)) &&
			!l.permissions.canSeeAny(ctx, c.Kinds, namespace, "")
	})
	return all, l.permissions.takeErr()
}

// replicasOf returns a controller in all replicas.
func (l *reviewLister) replicasOf(ctx context.Context, name string) ([]runningController, error) {
	all, err := l.controllersOfReplicas(ctx)
	return slices.DeleteFunc(all, func(c runningController) bool { return c.Name != name }), err
}

// show prints the reviews of these controllers.
func (l *reviewLister) show(ctx context.Context, t *table, from []runningController) error {
	reviews := []reviewItem{}
	hidden := false
	for i := range from {
		runs, err := from[i].source.Reviews(ctx, from[i].Name, l.structured() || l.output.Value == asWide)
		if err != nil {
			return err
		}
		runs = slices.DeleteFunc(runs, func(run inspect.Run) bool {
			return run.Object.Namespace != "" && !l.everywhere && run.Object.Namespace != l.target.Namespace
		})
		// Whether a hidden review matches the filter is nothing to learn.
		runs, some := inspect.VisibleReviews(runs, l.permissions.canRead(ctx))
		hidden = hidden || some
		for k := range runs {
			if l.filter.Match(&runs[k]) {
				reviews = append(reviews, newReviewItem(&runs[k]))
			}
		}
	}
	if err := l.permissions.takeErr(); err != nil {
		return err
	}
	if hidden && !l.warned {
		l.warned = true
		fmt.Fprintln(l.stderr, "warning: reviews of objects that you cannot get are hidden")
	}
	slices.SortStableFunc(reviews, func(a, b reviewItem) int { return a.Time.Compare(b.Time) })
	var rows []row
	for i := range reviews {
		rows = append(rows, l.row(&reviews[i], time.Now()))
	}
	if len(rows) == 0 && l.isTable() {
		if !l.none && !t.started {
			l.warnNone(len(from))
		}
		l.none = true
		return nil
	}
	return l.session.show(t, rows, reviews)
}

// warnNone prints that nothing matched, and where to look.
func (l *reviewLister) warnNone(controllers int) {
	switch {
	case controllers == 0:
		fmt.Fprintln(l.stderr, "No controller with admission webhooks found.")
	case l.everywhere:
		fmt.Fprintln(l.stderr, "No matching reviews found.")
	default:
		fmt.Fprintf(l.stderr, "No matching reviews found in namespace %s; -A lists those of all namespaces.\n", clean(l.target.Namespace))
	}
}

// reviewItem is a review in the output.
type reviewItem struct {
	ID         uint64        `json:"id"`
	Time       time.Time     `json:"time"`
	Controller string        `json:"controller"`
	Process    string        `json:"process"`
	Webhook    string        `json:"webhook"`
	Object     object.Ref    `json:"object"`
	Result     string        `json:"result"`
	Error      string        `json:"error,omitempty"`
	Took       time.Duration `json:"tookNanoseconds"`
	inspect.Review

	// name is the name of the object, message what the review said.
	name, message string
}

func newReviewItem(run *inspect.Run) reviewItem {
	return reviewItem{
		ID: run.ID, Time: run.Began, Controller: run.Controller, Process: run.Process, Webhook: run.Steps[0].Call.Name,
		Object: run.Object, Result: run.Outcome, Error: run.Error, Took: run.Took, Review: *run.Review(),
		name: run.ReviewedName(), message: run.ReviewMessage(),
	}
}

func (l *reviewLister) row(review *reviewItem, now time.Time) row {
	message, controller := review.message, review.Controller
	wide := l.output.Value == asWide
	if !wide {
		message, controller = short(message, maxErrorWidth), controller[strings.LastIndex(controller, "/")+1:]
	}
	all := []column{
		{header: "AGE", cell: ago(review.Time, now)},
		{header: "CONTROLLER", cell: controller},
		{header: "WEBHOOK", cell: review.Webhook, wide: true},
		{header: "OPERATION", cell: review.operationText()},
		{header: "OBJECT", cell: strings.ToLower(review.Object.Kind.Kind) + "/" + review.name},
		{header: "RESULT", cell: review.Result},
		{header: "USER", cell: review.User},
		{header: "DURATION", cell: preciseDuration(review.Took), wide: true},
		{header: "CHANGES", cell: review.changesText(), wide: true},
		{header: "MESSAGE", cell: message},
	}
	if l.controllerArg != "" {
		all = slices.Delete(all, 1, 2)
	}
	if l.everywhere {
		all = slices.Insert(all, 0, column{header: "NAMESPACE", cell: review.Object.Namespace})
	}
	headers, cells := l.columns(all...)
	ref := review.Object
	ref.Name = review.name
	return row{headers: headers, cells: cells, value: review, name: nameArg(ref), key: fmt.Sprint(review.Process, "\t", review.ID)}
}

// operationText returns the operation with its subresource and whether it was a dry run.
func (r *reviewItem) operationText() string {
	text := r.Operation
	if r.Subresource != "" {
		text += " " + r.Subresource
	}
	if r.DryRun {
		text += " (dry run)"
	}
	return text
}

// changesText returns the fields that the webhook changed.
func (r *reviewItem) changesText() string {
	var texts []string
	for _, change := range r.Changes {
		texts = append(texts, changeText(change))
	}
	return strings.Join(texts, "; ")
}
