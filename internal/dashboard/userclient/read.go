package userclient

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	core "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/rest"

	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/request"
	"github.com/setpoint-dev/setpoint/internal/served"
)

// Namespaces returns the names of all namespaces.
func (c *Client) Namespaces(ctx context.Context) ([]string, error) {
	return c.Names(ctx, object.KindOf(object.Namespaces), "")
}

// Names returns the names of all objects of a kind in a namespace, or in all. After an error it
// returns the names read so far.
func (c *Client) Names(ctx context.Context, kind object.Kind, namespace string) ([]string, error) {
	var names []string
	err := c.EachMetadata(ctx, kind, namespace, "", func(o *metav1.PartialObjectMetadata) { names = append(names, o.Name) })
	return names, err
}

func (c *Client) list(ctx context.Context, accept string, of object.Ref, o metav1.ListOptions, into any) error {
	path, err := pathOf(of.Kind, of.Namespace, "")
	if err != nil {
		return err
	}
	request := c.rest.Get().AbsPath(path...).SpecificallyVersionedParams(&o, metav1.ParameterCodec, metav1.SchemeGroupVersion)
	if err := c.get(ctx, accept, request, into); err != nil {
		return fmt.Errorf("list %s: %w", describe(of.Kind, of.Namespace, ""), err)
	}
	return nil
}

// ErrTooMany means that a list ended at its limit.
var ErrTooMany = errors.New("too many objects")

// EachMetadata calls show for each object of a kind with the labels, page by page. It returns
// ErrTooMany after the first 20,000.
func (c *Client) EachMetadata(ctx context.Context, kind object.Kind, namespace, labels string,
	show func(o *metav1.PartialObjectMetadata)) error {
	for next, left := "", maxListed; ; {
		var list metav1.PartialObjectMetadataList
		options := metav1.ListOptions{Limit: pageSize, Continue: next, LabelSelector: labels}
		if err := c.list(ctx, mediaTypeList, object.Ref{Kind: kind, Namespace: namespace}, options, &list); err != nil {
			return err
		}
		if left -= len(list.Items); left < 0 {
			return fmt.Errorf("list %s: there are more than %d objects: %w", describe(kind, namespace, ""), maxListed, ErrTooMany)
		}
		for i := range list.Items {
			show(&list.Items[i])
		}
		if next = list.Continue; next == "" {
			return nil
		}
	}
}

// The page size, and the maximum number of listed objects.
const (
	pageSize  = 500
	maxListed = 20000
)

// Table is a list of objects as kubectl prints it.
type Table struct {
	Columns []Column
	Rows    []Row
	// Continue requests the next page; empty at the end. Remaining is the number of further objects, if known.
	Continue  string
	Remaining int64
}

// Column is a column of a Table. Columns with a Priority above 0 are for wide output.
type Column = metav1.TableColumnDefinition

// Row is one object.
type Row struct {
	// Cells has one cell per column.
	Cells     []string
	Namespace string
	Name      string
	UID       string
	Created   time.Time
	Deleting  bool
}

// Table lists the objects of a kind in a namespace, or in all, as kubectl prints them.
func (c *Client) Table(ctx context.Context, kind object.Kind, namespace string, o metav1.ListOptions) (Table, error) {
	var printed metav1.Table
	if err := c.list(ctx, mediaTypeTable, object.Ref{Kind: kind, Namespace: namespace}, o, &printed); err != nil {
		return Table{}, err
	}
	table := Table{Continue: printed.Continue, Columns: printed.ColumnDefinitions}
	if printed.RemainingItemCount != nil {
		table.Remaining = *printed.RemainingItemCount
	}
	for i := range printed.Rows {
		row, err := readRow(&printed.Rows[i], len(table.Columns))
		if err != nil {
			return Table{}, err
		}
		table.Rows = append(table.Rows, row)
	}
	return table, nil
}

func readRow(printed *metav1.TableRow, columns int) (Row, error) {
	var o metav1.PartialObjectMetadata
	if err := json.Unmarshal(printed.Object.Raw, &o); err != nil {
		return Row{}, fmt.Errorf("decode table row: %w", err)
	}
	row := Row{
		Cells: make([]string, columns), Namespace: o.Namespace, Name: o.Name, UID: string(o.UID),
		Created: o.CreationTimestamp.Time, Deleting: o.DeletionTimestamp != nil,
	}
	for i := range min(columns, len(printed.Cells)) {
		row.Cells[i] = formatCell(printed.Cells[i])
	}
	return row, nil
}

// formatCell formats a cell. Large integers have no exponent.
func formatCell(value any) string {
	switch value := value.(type) {
	case nil:
		return ""
	case string:
		return value
	case float64:
		return strconv.FormatFloat(value, 'f', -1, 64)
	}
	return fmt.Sprint(value)
}

// Event is an event of an object.
type Event struct {
	// Type is "Normal" or "Warning".
	Type    string
	Reason  string
	Message string
	// Source is the component that reported it.
	Source string
	// Count is how often it occurred between First and Last.
	Count       int
	First, Last time.Time
}

// Events returns the events of an object, newest first.
func (c *Client) Events(ctx context.Context, ref object.Ref) ([]Event, error) {
	about := fields.Set{"involvedObject.kind": ref.Kind.Kind, "involvedObject.name": ref.Name}
	if ref.UID != "" {
		about["involvedObject.uid"] = ref.UID
	}
	in := object.Ref{
		Kind:      object.Kind{Version: "v1", Plural: "events", Namespaced: true},
		Namespace: cmp.Or(ref.Namespace, "default"), // Events of cluster-scoped objects are there.
	}
	var list core.EventList
	options := metav1.ListOptions{FieldSelector: about.AsSelector().String(), Limit: pageSize}
	if err := c.list(ctx, mediaTypeJSON, in, options, &list); err != nil {
		return nil, err
	}
	events := lists.Map(list.Items, readEvent)
	slices.SortStableFunc(events, func(a, b Event) int { return b.Last.Compare(a.Last) })
	return events, nil
}

// readEvent converts an event of either API version.
func readEvent(e core.Event) Event {
	event := Event{
		Type: e.Type, Reason: e.Reason, Message: e.Message, Count: max(1, int(e.Count)),
		Source: cmp.Or(e.ReportingController, e.Source.Component), First: e.FirstTimestamp.Time, Last: e.LastTimestamp.Time,
	}
	if e.Series != nil {
		event.Count, event.Last = int(e.Series.Count), e.Series.LastObservedTime.Time
	}
	if event.First.IsZero() {
		event.First = cmp.Or(e.EventTime.Time, e.CreationTimestamp.Time)
	}
	if event.Last.IsZero() {
		event.Last = event.First
	}
	return event
}

// KindCount is the number of objects of a kind.
type KindCount struct {
	object.Kind
	Count int64
	// More reports that there are more than Count.
	More bool
	// Err is why they could not be counted.
	Err error
}

// MissingPermission says which permission is needed to count them; "" if that is not the problem.
func (t KindCount) MissingPermission() string {
	missing, is := MissingPermission(t.Err)
	if !is {
		return ""
	}
	return missing.Missing()
}

const contentsTimeout = 8 * time.Second

// Contents counts the objects in a namespace by kind. It returns kinds with objects and kinds
// that could not be counted.
func (c *Client) Contents(ctx context.Context, namespace string) ([]KindCount, error) {
	all, err := c.cluster.kinds.list(ctx, kindsMaxAge)
	if len(all) == 0 {
		return nil, err
	}
	counts := lists.Map(namespacedKinds(all), func(kind object.Kind) KindCount { return KindCount{Kind: kind} })
	ctx, cancel := context.WithTimeout(ctx, contentsTimeout)
	defer cancel()
	InParallel(len(counts), func(i int) { counts[i] = c.Count(ctx, counts[i].Kind, namespace) })
	return slices.DeleteFunc(counts, func(t KindCount) bool {
		return t.Count == 0 && (t.Err == nil || errors.Is(t.Err, failure.ErrNotFound))
	}), nil
}

// namespacedKinds returns the kinds of stored objects in namespaces. It skips computed kinds
// such as metrics, and the second API of events.
func namespacedKinds(all []served.Kind) []object.Kind {
	var kinds []object.Kind
	for _, s := range all {
		is := func(k object.Kind) bool { return k.Group == s.Group && k.Plural == s.Plural }
		if s.Namespaced && !strings.Contains(s.Plural, "/") && slices.Contains(s.Verbs, "list") && slices.Contains(s.Verbs, "delete") &&
			s.Group != "events.k8s.io" && !slices.ContainsFunc(kinds, is) {
			kinds = append(kinds, s.Kind)
		}
	}
	return kinds
}

// Count counts the objects of a kind in a namespace, or in all. It lists one object and reads the remaining count.
func (c *Client) Count(ctx context.Context, kind object.Kind, namespace string) KindCount {
	t := KindCount{Kind: kind}
	var list metav1.PartialObjectMetadataList
	t.Err = c.list(ctx, mediaTypeList, object.Ref{Kind: kind, Namespace: namespace}, metav1.ListOptions{Limit: 1}, &list)
	t.Count = int64(len(list.Items))
	switch {
	case list.RemainingItemCount != nil:
		t.Count += *list.RemainingItemCount
	case list.Continue != "":
		t.More = true
	}
	return t
}

// The backoff of a failed watch.
const (
	minBackoff = 500 * time.Millisecond
	maxBackoff = 15 * time.Second
)

// Watch calls changed when an object of a kind, or the named one, may have changed. It calls it first when the watch
// starts, and runs until ctx ends. Only metadata is transferred. It returns early only if the first attempt is
// permanently rejected; an API server that has just started may reject later ones.
func (c *Client) Watch(ctx context.Context, kind object.Kind, namespace, name string, changed func()) error {
	path, err := pathOf(kind, namespace, "")
	if err != nil {
		return fmt.Errorf("watch %s: %w", describe(kind, namespace, name), err)
	}
	watch := func() *rest.Request {
		request := c.rest.Get().AbsPath(path...)
		if name != "" {
			request.Param("fieldSelector", fields.OneTermEqualSelector("metadata.name", name).String())
		}
		return request
	}
	backoff := minBackoff
	for attempt := 0; ; attempt++ {
		began := time.Now()
		err := c.watchOnce(ctx, watch, changed)
		// A retry cannot succeed.
		permanent := apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) || apierrors.IsNotFound(err) ||
			apierrors.IsMethodNotSupported(err) || errors.Is(err, failure.ErrNotFound)
		if ctx.Err() == nil && attempt == 0 && permanent {
			return fmt.Errorf("watch %s: %w", describe(kind, namespace, name), err)
		}
		if time.Since(began) > maxBackoff {
			backoff = minBackoff
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(backoff):
		}
		backoff = min(2*backoff, maxBackoff)
	}
}

// watchOnce watches until the connection ends. It notifies at the start, and on each change.
func (c *Client) watchOnce(ctx context.Context, watch func() *rest.Request, notify func()) error {
	var list metav1.PartialObjectMetadataList
	if err := c.get(ctx, mediaTypeList, watch().Param("limit", "1"), &list); err != nil {
		return err
	}
	notify()
	stream, err := watch().SetHeader("Accept", request.Metadata).
		Param("watch", "true").Param("allowWatchBookmarks", "true").Param("resourceVersion", list.ResourceVersion).Stream(ctx)
	if err != nil {
		return classifyError(ctx, err)
	}
	defer stream.Close()
	for events := json.NewDecoder(stream); ; {
		var event metav1.WatchEvent
		if err := events.Decode(&event); err != nil {
			return err
		}
		switch event.Type {
		case "BOOKMARK":
		case "ERROR":
			return fmt.Errorf("the API server ended the watch: %s", event.Object.Raw)
		default:
			notify()
		}
	}
}
