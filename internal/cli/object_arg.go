package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"

	"github.com/setpoint-dev/setpoint/internal/host"
	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// reader reads objects with the user's own rights.
type reader struct {
	mapper  meta.RESTMapper
	dynamic dynamic.Interface
}

func newReader(cluster host.Cluster) (*reader, error) {
	config := rest.CopyConfig(cluster.Config)
	config.UserAgent = cluster.UserAgent
	discover, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make a client for the cluster: %w", err)
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make a client for the cluster: %w", err)
	}
	cached := memory.NewMemCacheClient(discover)
	mapper := restmapper.NewShortcutExpander(restmapper.NewDeferredDiscoveryRESTMapper(cached), cached, nil)
	return &reader{mapper: mapper, dynamic: client}, nil
}

// openObject is open for a command about one object, which its argument names.
func (f *readFlags) openObject(ctx context.Context, p *program, args []string) (*reading, *reader, inspect.Ref, error) {
	r, err := f.open(ctx, p)
	if err != nil {
		return nil, nil, inspect.Ref{}, err
	}
	reader, err := newReader(r.found)
	if err != nil {
		return nil, nil, inspect.Ref{}, err
	}
	kind, name, err := parseObject(args)
	if err != nil {
		return nil, nil, inspect.Ref{}, err
	}
	ref, err := reader.find(kind, name, r.found.Namespace)
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
func (r *reader) find(kind, name, namespace string) (inspect.Ref, error) {
	mapping, err := r.mapping(kind)
	if err != nil {
		return inspect.Ref{}, err
	}
	ref := inspect.Ref{Kind: inspect.Kind{
		Group: mapping.Resource.Group, Version: mapping.Resource.Version, Plural: mapping.Resource.Resource,
		Kind: mapping.GroupVersionKind.Kind, Namespaced: mapping.Scope.Name() == meta.RESTScopeNameNamespace,
	}, Name: name}
	if ref.Namespaced {
		ref.Namespace = namespace
	}
	return ref, nil
}

// mapping finds a kind as kubectl does: by its plural, singular, short name or kind,
// with version and group or without.
func (r *reader) mapping(word string) (*meta.RESTMapping, error) {
	full, resource := schema.ParseResourceArg(word)
	if full != nil {
		if kind, err := r.mapper.KindFor(*full); err == nil {
			return r.mapper.RESTMapping(kind.GroupKind(), kind.Version)
		}
	}
	kind, err := r.mapper.KindFor(resource.WithVersion(""))
	if err == nil {
		return r.mapper.RESTMapping(kind.GroupKind(), kind.Version)
	}
	if !meta.IsNoMatchError(err) {
		return nil, fmt.Errorf("ask the API server what it serves: %w", err)
	}
	_, groupKind := schema.ParseKindArg(word)
	mapping, err := r.mapper.RESTMapping(groupKind)
	if meta.IsNoMatchError(err) {
		return nil, hinted{fmt.Errorf("the API server serves no kind %q", word), "`kubectl api-resources` lists those that it does"}
	}
	return mapping, err
}

// read reads an object; nil where there is none.
func (r *reader) read(ctx context.Context, ref inspect.Ref) (*object.Object, error) {
	stored, err := r.at(ref).Get(ctx, ref.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil //nolint:nilnil // Nothing is there, which is an answer.
	case apierrors.IsForbidden(err):
		return nil, hinted{fmt.Errorf("you may not see %s: %w", nameOf(ref), err), "what was done about an object is shown to those who may get it"}
	case err != nil:
		return nil, fmt.Errorf("read %s: %w", nameOf(ref), err)
	}
	text, err := stored.MarshalJSON()
	return objectOf(text, err)
}

func objectOf(text []byte, err error) (*object.Object, error) {
	if err != nil {
		return nil, err
	}
	return object.Parse(text)
}

// at is where objects of a kind are.
func (r *reader) at(ref inspect.Ref) dynamic.ResourceInterface {
	all := r.dynamic.Resource(schema.GroupVersionResource{Group: ref.Group, Version: ref.Version, Resource: ref.Plural})
	if ref.Namespace == "" {
		return all
	}
	return all.Namespace(ref.Namespace)
}

// nameOf is an object in words, such as "Pod shop/web".
func nameOf(ref inspect.Ref) string {
	name := ref.Name
	if ref.Namespace != "" {
		name = ref.Namespace + "/" + ref.Name
	}
	return clean(ref.Kind.Kind + " " + name)
}

// argOf is an object as an argument of commands.
func argOf(ref inspect.Ref) string {
	arg := strings.ToLower(ref.Kind.Kind)
	if ref.Group != "" {
		arg += "." + ref.Group
	}
	arg += "/" + ref.Name
	if ref.Namespace != "" {
		arg += " -n " + ref.Namespace
	}
	return clean(arg)
}

// errNobodyCares is said about an object in nobody's care.
var errNobodyCares = errors.New("no controller cares for it")
