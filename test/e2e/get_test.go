package e2e

import (
	"errors"
	"io"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// getCommand is a `kubectl get …` that this process can run itself. A poll repeats it
// five times a second; starting kubectl, a program of 150 MB, each time would be most of
// the load of a test run.
type getCommand struct {
	kubeconfig, context, server string

	namespace      string
	allNamespaces  bool
	labels, fields string
	ignoreNotFound bool
	raw            string
	format         string
	noHeaders      bool
	args           []string
	folder         string // in which it runs
}

// errOnlyKubectl says that the output takes the real kubectl: the command has a flag
// that is not known here, or it fails in another way than by NotFound.
var errOnlyKubectl = errors.New("only kubectl knows what it prints")

// parseGet reads the arguments of kubectl, if they are of a `get` with flags that are
// known here.
func parseGet(args []string) (getCommand, bool) {
	var c getCommand
	flags := pflag.NewFlagSet("kubectl", pflag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.Usage = func() {}
	flags.StringVar(&c.kubeconfig, "kubeconfig", "", "")
	flags.StringVar(&c.context, "context", "", "")
	flags.StringVarP(&c.server, "server", "s", "", "")
	flags.StringVarP(&c.namespace, "namespace", "n", "", "")
	flags.BoolVarP(&c.allNamespaces, "all-namespaces", "A", false, "")
	flags.StringVarP(&c.labels, "selector", "l", "", "")
	flags.StringVar(&c.fields, "field-selector", "", "")
	flags.BoolVar(&c.ignoreNotFound, "ignore-not-found", false, "")
	flags.BoolVar(&c.noHeaders, "no-headers", false, "")
	flags.StringVar(&c.raw, "raw", "", "")
	flags.StringVarP(&c.format, "output", "o", "", "")
	if err := flags.Parse(args); err != nil || flags.NArg() == 0 || flags.Arg(0) != "get" {
		return c, false
	}
	c.args = flags.Args()[1:]
	if c.raw != "" {
		return c, len(c.args) == 0 && c.format == "" && c.labels == "" && c.fields == ""
	}
	return c, len(c.args) > 0 && knownFormat(c.format)
}

// target is one request: a named object, or the list of a kind's objects.
type target struct {
	mapping *meta.RESTMapping
	name    string
}

// targets reads TYPE[,TYPE…] [NAME…] and TYPE/NAME… as kubectl does. implied says that
// a single object is printed as itself and not as a list of one.
func (c getCommand) targets(mapper meta.RESTMapper) (found []target, implied bool, err error) {
	pairs, err := c.pairs()
	if err != nil {
		return nil, false, err
	}
	seen := map[schema.GroupVersionKind]bool{}
	for _, pair := range pairs {
		mapping, err := mappingFor(mapper, pair.kind)
		if err != nil {
			return nil, false, err
		}
		if pair.name == "" && seen[mapping.GroupVersionKind] {
			continue
		}
		seen[mapping.GroupVersionKind] = true
		found = append(found, target{mapping, pair.name})
	}
	return found, len(pairs) == 1 && pairs[0].name != "", nil
}

// pair is a kind as kubectl was given it, and a name or none.
type pair struct{ kind, name string }

func (c getCommand) pairs() ([]pair, error) {
	var pairs []pair
	slashes := strings.Count(strings.Join(c.args, " "), "/")
	kinds, names := strings.Split(c.args[0], ","), c.args[1:]
	switch {
	case slashes > 0 && slashes != len(c.args):
		return nil, errOnlyKubectl
	case slashes > 0:
		for _, arg := range c.args {
			kind, name, ok := strings.Cut(arg, "/")
			if !ok || kind == "" || name == "" || strings.Contains(kind, ",") {
				return nil, errOnlyKubectl
			}
			pairs = append(pairs, pair{kind, name})
		}
	default:
		for _, kind := range kinds {
			for _, name := range names {
				pairs = append(pairs, pair{kind, name})
			}
			if len(names) == 0 {
				pairs = append(pairs, pair{kind: kind})
			}
		}
	}
	named := slashes > 0 || len(names) > 0
	if named && (c.labels != "" || c.fields != "" || c.allNamespaces) {
		return nil, errOnlyKubectl
	}
	return pairs, nil
}

// mappingFor is how kubectl understands the name of a kind: a resource, a short name, a
// kind, each with or without version and group.
func mappingFor(mapper meta.RESTMapper, name string) (*meta.RESTMapping, error) {
	var kind schema.GroupVersionKind
	full, partial := schema.ParseResourceArg(name)
	if full != nil {
		kind, _ = mapper.KindFor(*full)
	}
	if kind.Empty() {
		kind, _ = mapper.KindFor(partial.WithVersion(""))
	}
	if !kind.Empty() {
		return mapper.RESTMapping(kind.GroupKind(), kind.Version)
	}
	fullKind, groupKind := schema.ParseKindArg(name)
	if fullKind != nil {
		if mapping, err := mapper.RESTMapping(fullKind.GroupKind(), fullKind.Version); err == nil {
			return mapping, nil
		}
	}
	return mapper.RESTMapping(groupKind)
}
