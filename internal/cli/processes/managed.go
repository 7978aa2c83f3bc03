package processes

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/setpoint-dev/setpoint/internal/cli/client"
	"github.com/setpoint-dev/setpoint/internal/cli/command"
	"github.com/setpoint-dev/setpoint/internal/cli/output"
	"github.com/setpoint-dev/setpoint/internal/dashboard/userclient"
	"github.com/setpoint-dev/setpoint/internal/flags"
	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// Selection are the flags that select objects of a controller.
type Selection struct {
	Everywhere bool
	Labels     inspect.LabelSelector
	State      *flags.Choice
	Sort       *flags.Choice
	Text       string
}

// NewSelection returns flags that select everything.
func NewSelection() Selection {
	return Selection{
		State: flags.OneOf("any", "failing", "conflicting", "queued", "unknown", "paused", "synced"),
		Sort:  flags.OneOf("state", "name", "created", "run", "children"),
	}
}

// Register adds the flags.
func (f *Selection) Register(c *cobra.Command) {
	set := c.Flags()
	set.BoolVarP(&f.Everywhere, "all-namespaces", "A", false, "the objects of all namespaces")
	set.VarP(&f.Labels, "selector", "l", "only objects with these labels, such as app=web,tier!=test")
	command.AddChoice(c, f.State, "state", "", "only objects in this state")
	set.StringVar(&f.Text, "containing", "", "only objects with this `text` in the name, the namespace or the error")
}

// Managed are the objects that a controller manages.
type Managed struct {
	*Session
	Flags *Selection
	// Selected is the controller, Source the process that runs it.
	Selected inspect.Controller
	Source   inspect.Source
	// Name is the name of one object; "" means all.
	Name string
	// WarnedHidden reports that the warning about hidden objects was printed.
	WarnedHidden bool
}

// SelectController finds the controller that a word names, if the user may see it or the object of the name.
func (m *Managed) SelectController(ctx context.Context, word string) (err error) {
	m.Selected, m.Source, err = m.Controller(ctx, word, m.objectName())
	return err
}

// AppendNew appends objects that are not among the others.
func AppendNew(all, more []client.VisibleState) []client.VisibleState {
	return append(all, slices.DeleteFunc(more, func(s client.VisibleState) bool {
		return slices.ContainsFunc(all, func(known client.VisibleState) bool { return known.Ref == s.Ref })
	})...)
}

// query returns the filter of the list.
func (m *Managed) query() inspect.Query {
	q := inspect.Query{Text: strings.ToLower(m.Flags.Text), Labels: m.Flags.Labels, Sort: m.Flags.Sort.Value, Limit: pageSize}
	for _, state := range inspect.States() {
		if strings.EqualFold(string(state), m.Flags.State.Value) {
			q.State = state
		}
	}
	anyNamespaced := slices.ContainsFunc(m.Selected.Kinds, func(k object.Kind) bool { return k.Namespaced })
	if !m.Flags.Everywhere && anyNamespaced {
		q.Namespace = m.Target.Namespace
	}
	return q
}

// List returns the matching objects that the user may list, and their total number.
func (m *Managed) List(ctx context.Context) ([]client.VisibleState, int, error) {
	if m.Name != "" {
		refs, err := m.refs(ctx)
		if err != nil {
			return nil, 0, err
		}
		all, err := m.named(ctx, refs)
		return all, len(all), err
	}
	q := m.query()
	kinds, err := m.Client.Listable(ctx, m.Selected.Kinds, q.Namespace)
	if err != nil {
		return nil, 0, err
	}
	m.warn(kinds)
	q.ReadableKinds = inspect.Readable(m.Selected.Children, q.Namespace, m.Client.CanRead(ctx))
	return m.pages(ctx, q, func(c *inspect.ObjectState) bool { return client.ContainsKind(kinds, c.Kind) })
}

// pages returns the objects of all pages that are visible, and the total number of objects.
func (m *Managed) pages(ctx context.Context, q inspect.Query, visible func(*inspect.ObjectState) bool) ([]client.VisibleState, int, error) {
	all := []client.VisibleState{}
	for {
		page, err := m.Source.Objects(ctx, m.Selected.Name, q)
		if err != nil {
			return nil, 0, err
		}
		for _, state := range page.Objects {
			if visible(&state) {
				all = append(all, m.Client.State(ctx, state))
			}
		}
		q.Offset += len(page.Objects)
		if len(page.Objects) == 0 || q.Offset >= page.Matching {
			return all, page.Total, m.Client.TakeErr()
		}
	}
}

// warn warns once about kinds that are left out.
func (m *Managed) warn(listable []object.Kind) {
	left := slices.DeleteFunc(slices.Clone(m.Selected.Kinds), func(k object.Kind) bool { return client.ContainsKind(listable, k) })
	if len(left) == 0 || m.WarnedHidden {
		return
	}
	m.WarnedHidden = true
	fmt.Fprintf(m.Stderr, "warning: skipped %s: you cannot list them\n", output.Clean(client.KindNames(left)))
}

// named returns the objects with the name that the user may get.
func (m *Managed) named(ctx context.Context, refs []object.Ref) ([]client.VisibleState, error) {
	all := []client.VisibleState{}
	var refused error
	for _, ref := range refs {
		if !m.Client.Can(ctx, "get", ref.Kind, ref.Namespace, ref.Name) {
			refused = userclient.Permission{Verb: "get", Resource: ref.Plural, Group: ref.Group,
				Namespace: ref.Namespace}.Forbidden(ref.Name)
			continue
		}
		states, err := m.Source.States(ctx, ref)
		if err != nil {
			return nil, err
		}
		states = slices.DeleteFunc(states, func(c inspect.ObjectState) bool { return c.Controller != m.Selected.Name })
		all = append(all, m.Client.States(ctx, states)...)
	}
	if err := m.Client.TakeErr(); err != nil {
		return nil, err
	}
	switch {
	case len(all) > 0:
		return all, nil
	case refused != nil:
		return nil, refused
	}
	return nil, command.WithHint(fmt.Errorf("%s does not manage %q in namespace %s", m.Selected.Name, m.Name, m.Target.Namespace),
		"-n selects another namespace; `setpoint get "+output.Clean(m.Selected.Name)+" -A` lists all objects")
}

// NamedKind returns the objects with the name. It rejects KIND/NAME of a kind that the controller does not manage.
func (m *Managed) NamedKind(ctx context.Context) ([]client.VisibleState, error) {
	refs, err := m.refs(ctx)
	if err != nil {
		return nil, err
	}
	if len(refs) == 0 {
		word, _, _ := strings.Cut(m.Name, "/")
		return nil, command.WithHint(fmt.Errorf("%s does not manage %s", output.Clean(m.Selected.Name), output.Clean(word)), "it manages "+
			output.Clean(client.KindNames(m.Selected.Kinds)))
	}
	return m.named(ctx, refs)
}

// objectName returns the name without the kind before the slash.
func (m *Managed) objectName() string { return m.Name[strings.Index(m.Name, "/")+1:] }

// refs returns the objects that the name can refer to.
func (m *Managed) refs(ctx context.Context) ([]object.Ref, error) {
	name := m.objectName()
	var only object.Kind
	if word, _, split := strings.Cut(m.Name, "/"); split {
		var err error
		if only, err = m.Client.Kind(ctx, word); err != nil {
			return nil, err
		}
	}
	var all []object.Ref
	for _, k := range m.Selected.Kinds {
		if only.Kind != "" && (only.Group != k.Group || only.Kind != k.Kind) {
			continue
		}
		all = append(all, object.Ref{Kind: k, Namespace: k.Within(m.Target.Namespace), Name: name})
	}
	return all, nil
}

// WarnNone prints that nothing matched, and where to look.
func (m *Managed) WarnNone(total int) {
	where, more := "in any namespace", ""
	namespaced := !m.Flags.Everywhere && m.query().Namespace != ""
	if namespaced {
		where = "in namespace " + m.Target.Namespace
	}
	if total > 0 {
		more = fmt.Sprintf(" It manages %s in total.", output.Plural(total, "object", "objects"))
	}
	if more != "" && namespaced {
		more = strings.TrimSuffix(more, ".") + "; use -A for all namespaces."
	}
	fmt.Fprintf(m.Stderr, "%s has no matching objects %s.%s\n", output.Clean(m.Selected.Name), output.Clean(where), more)
}

// pageSize is the number of objects per request.
const pageSize = 1000
