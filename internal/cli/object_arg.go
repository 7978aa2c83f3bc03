package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/setpoint-dev/setpoint/internal/dashboard/model"
	"github.com/setpoint-dev/setpoint/internal/dashboard/userclient"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// kindHelp describes how to name a kind on the command line.
const kindHelp = `A kind is written as for kubectl: by its plural, singular, kind or short name, with
its group behind a dot, or version and group, or neither. Where several groups serve
the same word it needs the group: kubectl takes the one that the API server prefers,
while Setpoint names them all and does nothing.
`

// reader reads objects with the user's own rights.
type reader struct{ api *userclient.Client }

// openObject is open for a command about one object, which its argument names.
func (f *readFlags) openObject(ctx context.Context, p *program, args []string) (*session, *reader, model.Ref, error) {
	r, err := f.open(ctx, p)
	if err != nil {
		return nil, nil, model.Ref{}, err
	}
	reader := &reader{r.permissions.api}
	kind, name, err := parseObject(args)
	if err != nil {
		return nil, nil, model.Ref{}, err
	}
	ref, err := reader.find(ctx, kind, name, r.target.Namespace)
	return r, reader, ref, err
}

// parseObject splits KIND/NAME, which may be two words too.
func parseObject(args []string) (kind, name string, err error) {
	kind, name, found := strings.Cut(args[0], "/")
	if !found && len(args) == 2 {
		kind, name, found = args[0], args[1], true
		args = args[:1]
	}
	if !found || kind == "" || name == "" || len(args) > 1 {
		return "", "", usageError{fmt.Errorf("%q names no object; write KIND/NAME, such as pod/web", strings.Join(args, " "))}
	}
	return kind, name, nil
}

// find finds the object that is meant by KIND/NAME.
func (r *reader) find(ctx context.Context, word, name, namespace string) (model.Ref, error) {
	kind, err := r.kind(ctx, word)
	if err != nil {
		return model.Ref{}, err
	}
	ref := model.Ref{Kind: kind, Name: name}
	if ref.Namespaced {
		ref.Namespace = namespace
	}
	return ref, nil
}

// read reads an object; nil where there is none.
func (r *reader) read(ctx context.Context, ref model.Ref) (*object.Object, error) {
	stored, err := r.api.Get(ctx, ref.Kind, ref.Namespace, ref.Name)
	switch {
	case errors.Is(err, model.ErrNotFound):
		return nil, nil //nolint:nilnil // Nothing is there, which is an answer.
	case apierrors.IsForbidden(err):
		return nil, errorWithHint{fmt.Errorf("you may not see %s: %w", nameOf(ref), err), "the history of an object is shown to users who may get it"}
	case err != nil:
		return nil, err
	}
	return object.Parse(stored)
}

// nameOf is an object in words, such as "Pod shop/web".
func nameOf(ref model.Ref) string {
	name := ref.Name
	if ref.Namespace != "" {
		name = ref.Namespace + "/" + ref.Name
	}
	return clean(ref.Kind.Kind + " " + name)
}

// nameArg is an object without its namespace, as kubectl's -o name has it.
func nameArg(ref model.Ref) string {
	arg := strings.ToLower(ref.Kind.Kind)
	if ref.Group != "" {
		arg += "." + ref.Group
	}
	return arg + "/" + ref.Name
}

// argOf is an object as an argument of commands.
func argOf(ref model.Ref) string {
	arg := nameArg(ref)
	if ref.Namespace != "" {
		arg += " -n " + ref.Namespace
	}
	return clean(arg)
}

// errNotManaged is said about an object in nobody's care.
var errNotManaged = errors.New("no controller cares for it")
