package get

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/setpoint-dev/setpoint/internal/cli/client"
	"github.com/setpoint-dev/setpoint/internal/cli/command"
	"github.com/setpoint-dev/setpoint/internal/cli/output"
	"github.com/setpoint-dev/setpoint/internal/cli/processes"
	"github.com/setpoint-dev/setpoint/internal/diff"
	"github.com/setpoint-dev/setpoint/internal/flags"
	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// reviewFlags are the flags of `setpoint get reviews`.
type reviewFlags struct {
	processes.ReadFlags
	everywhere, denied, failed bool
	operation                  *flags.Choice
	user, text                 string
}

// anyOperation is the default of --operation.
const anyOperation = "any"

func reviewsCommand(p *command.Invocation) *cobra.Command {
	f := &reviewFlags{
		ReadFlags: processes.ReadFlags{Replicas: true, PrintFlags: output.NewRowFlags()},
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

` + client.KindHelp + `
` + processes.DiscoveryHelp,
		Example: `  setpoint get reviews                       # in this namespace
  setpoint get reviews -A --denied           # what was denied, in all namespaces
  setpoint get reviews images pod/web        # the reviews of one pod
  setpoint get reviews images -o wide        # with webhooks, durations and changed fields
  setpoint get reviews -A --user ann -w      # watch the requests of a user`,
		Args: func(c *cobra.Command, args []string) error {
			if err := command.NoArguments(c, args[min(2, len(args)):]); err != nil {
				return err
			}
			return client.CheckNames(args[min(1, len(args)):])
		},
		ValidArgsFunction: processes.CompleteRunning(&f.ReadFlags,
			processes.RunningWords{Controller: func(c *inspect.Controller) bool { return c.Reviews }}),
		RunE: func(c *cobra.Command, args []string) error { return getReviews(c.Context(), p, f, args) },
	}
	f.Register(c)
	set := c.Flags()
	set.BoolVarP(&f.everywhere, "all-namespaces", "A", false, "list reviews of all namespaces")
	set.BoolVar(&f.denied, "denied", false, "list only denied reviews")
	set.BoolVar(&f.failed, "failed", false, "list only reviews without a response, to which the failure policy applied")
	command.AddChoice(c, f.operation, "operation", "", "list only reviews of this operation")
	set.StringVar(&f.user, "user", "", "list only reviews of requests of this `user`")
	set.StringVar(&f.text, "containing", "", "list only reviews with this `text` in the object, the user or the message")
	return c
}

func getReviews(ctx context.Context, p *command.Invocation, f *reviewFlags, args []string) error {
	r, err := f.Open(ctx, p)
	if err != nil {
		return err
	}
	args = append(args, "", "")
	l := reviewLister{Session: r, controllerArg: args[0], everywhere: f.everywhere}
	l.filter = inspect.ReviewFilter{Outcomes: f.outcomes(), User: f.user, Text: strings.ToLower(f.text)}
	if f.operation.Value != anyOperation {
		l.filter.Operation = f.operation.Value
	}
	if err := l.setObject(ctx, args[1]); err != nil {
		return err
	}
	t := r.Table(r.Stdout)
	return r.Follow(ctx, func(ctx context.Context) error { return l.showAll(ctx, t) })
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
	*processes.Session
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
	l.filter.Kind, err = l.Client.Kind(ctx, kind)
	return err
}

// showAll prints the reviews of the selected controllers.
func (l *reviewLister) showAll(ctx context.Context, t *output.Table) error {
	found, err := l.reviewing(ctx)
	if err != nil {
		return err
	}
	return l.show(ctx, t, found)
}

// reviewing returns the controllers with admission webhooks that the user may see, in all replicas.
func (l *reviewLister) reviewing(ctx context.Context) ([]processes.RunningController, error) {
	if l.controllerArg != "" {
		c, _, err := l.Controller(ctx, l.controllerArg, l.filter.ObjectName)
		switch {
		case err != nil:
			return nil, err
		case !c.Reviews:
			return nil, command.WithHint(fmt.Errorf("%s has no admission webhooks", output.Clean(c.Name)),
				"`setpoint get reviews` lists the reviews of all controllers")
		}
		return l.replicasOf(ctx, c.Name)
	}
	all, err := l.ControllersOfReplicas(ctx)
	if err != nil {
		return nil, err
	}
	namespace := l.Target.Namespace
	if l.everywhere {
		namespace = ""
	}
	all = slices.DeleteFunc(all, func(c processes.RunningController) bool {
		return !c.Reviews || !inspect.CanView(&c.Controller, l.Client.AccessCheck(ctx)) &&
			!l.Client.CanSeeAny(ctx, c.Kinds, namespace, "")
	})
	return all, l.Client.TakeErr()
}

// replicasOf returns a controller in all replicas.
func (l *reviewLister) replicasOf(ctx context.Context, name string) ([]processes.RunningController, error) {
	all, err := l.ControllersOfReplicas(ctx)
	return slices.DeleteFunc(all, func(c processes.RunningController) bool { return c.Name != name }), err
}

// show prints the reviews of these controllers.
func (l *reviewLister) show(ctx context.Context, t *output.Table, from []processes.RunningController) error {
	reviews := []reviewItem{}
	hidden := false
	for i := range from {
		runs, err := from[i].Source.Reviews(ctx, from[i].Name, l.Structured() || l.Output.Value == output.AsWide)
		if err != nil {
			return err
		}
		runs = slices.DeleteFunc(runs, func(run inspect.Run) bool {
			return run.Object.Namespace != "" && !l.everywhere && run.Object.Namespace != l.Target.Namespace
		})
		// Whether a hidden review matches the filter is nothing to learn.
		runs, some := inspect.VisibleReviews(runs, l.Client.CanRead(ctx))
		hidden = hidden || some
		for k := range runs {
			if l.filter.Match(&runs[k]) {
				reviews = append(reviews, newReviewItem(&runs[k]))
			}
		}
	}
	if err := l.Client.TakeErr(); err != nil {
		return err
	}
	if hidden && !l.warned {
		l.warned = true
		fmt.Fprintln(l.Stderr, "warning: reviews of objects that you cannot get are hidden")
	}
	slices.SortStableFunc(reviews, func(a, b reviewItem) int { return a.Time.Compare(b.Time) })
	rows := lists.Map(reviews, func(r reviewItem) output.Row { return l.row(&r, time.Now()) })
	if len(rows) == 0 && l.IsTable() {
		if !l.none && !t.Started {
			l.warnNone(len(from))
		}
		l.none = true
		return nil
	}
	return l.Show(l.Stdout, t, rows, reviews, l.Watch)
}

// warnNone prints that nothing matched, and where to look.
func (l *reviewLister) warnNone(controllers int) {
	switch {
	case controllers == 0:
		fmt.Fprintln(l.Stderr, "No controller with admission webhooks found.")
	case l.everywhere:
		fmt.Fprintln(l.Stderr, "No matching reviews found.")
	default:
		fmt.Fprintf(l.Stderr, "No matching reviews found in namespace %s; -A lists those of all namespaces.\n",
			output.Clean(l.Target.Namespace))
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

func (l *reviewLister) row(review *reviewItem, now time.Time) output.Row {
	message, controller := review.message, review.Controller
	wide := l.Output.Value == output.AsWide
	if !wide {
		message, controller = diff.Shorten(message, maxErrorWidth), controller[strings.LastIndex(controller, "/")+1:]
	}
	all := []output.Column{
		{Header: "AGE", Cell: output.Ago(review.Time, now)},
		{Header: "CONTROLLER", Cell: controller},
		{Header: "WEBHOOK", Cell: review.Webhook, Wide: true},
		{Header: "OPERATION", Cell: review.operationText()},
		{Header: "OBJECT", Cell: strings.ToLower(review.Object.Kind.Kind) + "/" + review.name},
		{Header: "RESULT", Cell: review.Result},
		{Header: "USER", Cell: review.User},
		{Header: "DURATION", Cell: output.PreciseDuration(review.Took), Wide: true},
		{Header: "CHANGES", Cell: strings.Join(lists.Map(review.Changes, diff.Change), "; "), Wide: true},
		{Header: "MESSAGE", Cell: message},
	}
	if l.controllerArg != "" {
		all = slices.Delete(all, 1, 2)
	}
	if l.everywhere {
		all = slices.Insert(all, 0, output.Column{Header: "NAMESPACE", Cell: review.Object.Namespace})
	}
	headers, cells := l.Columns(all...)
	ref := review.Object
	ref.Name = review.name
	return output.Row{Headers: headers, Cells: cells, Value: review, Name: client.Arg(ref),
		Key: fmt.Sprint(review.Process, "\t", review.ID)}
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
