package e2e

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/setpoint-dev/setpoint/internal/must"
	"github.com/spf13/pflag"
	"golang.org/x/tools/txtar"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
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

// getter runs `kubectl get …` in this process. Each script has its own, as it has its
// own home, where kubectl caches which kinds the servers serve.
type getter struct {
	mu          sync.Mutex
	connections map[string]*connection // by kubeconfig and flags
}

// requestTimeout ends requests that get no response. kubectl connects anew each time
// and may get one.
const requestTimeout = 10 * time.Second

// run runs a command as kubectl would in that folder, with that environment. It returns
// errOnlyKubectl where the real kubectl has to run, and otherwise an error if kubectl
// would fail.
func (g *getter) run(folder string, environ, args []string) (output, error) {
	command, ok := parseGet(args)
	if !ok {
		return output{}, errOnlyKubectl
	}
	command.folder = folder
	c, err := g.connect(folder, environ, command)
	if err != nil {
		return output{}, fmt.Errorf("%w: %w", errOnlyKubectl, err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), requestTimeout)
	defer cancel()
	out, err := c.get(ctx, command)
	if errors.Is(err, errStale) {
		c.mapper.Reset()
		out, err = c.get(ctx, command)
	}
	if err == nil || errors.Is(err, errNotFound) {
		return out, err
	}
	return output{}, fmt.Errorf("%w: %w", errOnlyKubectl, err)
}

func (g *getter) connect(folder string, environ []string, command getCommand) (*connection, error) {
	file := command.kubeconfig
	for _, variable := range environ {
		if value, ok := strings.CutPrefix(variable, "KUBECONFIG="); ok && file == "" {
			file = value
		}
	}
	if !filepath.IsAbs(file) {
		file = filepath.Join(folder, file)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	key := strings.Join([]string{file, command.context, command.server, string(text)}, "\x00")
	if c := g.connections[key]; c != nil {
		return c, nil
	}
	c, err := newConnection(clientcmd.NewNonInteractiveDeferredLoadingClientConfig(
		&clientcmd.ClientConfigLoadingRules{ExplicitPath: file},
		&clientcmd.ConfigOverrides{CurrentContext: command.context, ClusterInfo: api.Cluster{Server: command.server}}))
	if err != nil {
		return nil, err
	}
	if g.connections == nil {
		g.connections = map[string]*connection{}
	}
	g.connections[key] = c
	return c, nil
}

// connection is a client of one server, with the kinds that the server served when they
// were discovered.
type connection struct {
	namespace string
	client    rest.Interface
	discovery discovery.CachedDiscoveryInterface
	mapper    *restmapper.DeferredDiscoveryRESTMapper
}

func newConnection(kubeconfig clientcmd.ClientConfig) (*connection, error) {
	namespace, _, err := kubeconfig.Namespace()
	if err != nil {
		return nil, err
	}
	config, err := kubeconfig.ClientConfig()
	if err != nil {
		return nil, err
	}
	config.QPS = -1
	config.WarningHandler = rest.NoWarnings{} // responses have them too
	config.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
	client, err := rest.UnversionedRESTClientFor(config)
	if err != nil {
		return nil, err
	}
	kinds, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, err
	}
	cached := memory.NewMemCacheClient(kinds)
	return &connection{namespace, client, cached, restmapper.NewDeferredDiscoveryRESTMapper(cached)}, nil
}

var (
	// errNotFound says that the one object that was named does not exist.
	errNotFound = errors.New("not found")
	// errStale says that the server does not serve a kind, as far as is known: it may
	// serve it by now, or no longer as it did.
	errStale = errors.New("the kinds have to be discovered again")
)

func (c *connection) get(ctx context.Context, command getCommand) (output, error) {
	if command.raw != "" {
		var out output
		body, err := body(c.client.Get().RequestURI(command.raw).Do(ctx))
		out.stdout.Write(body)
		return out, err
	}
	warned := false
	targets, implied, err := command.targets(restmapper.NewShortcutExpander(c.mapper, c.discovery, func(string) { warned = true }))
	switch {
	case meta.IsNoMatchError(err):
		return output{}, errStale
	case err != nil:
		return output{}, err
	case warned:
		return output{}, errOnlyKubectl
	}
	var results []result
	for _, target := range targets {
		found, err := c.fetch(ctx, command, target)
		switch {
		case apierrors.IsNotFound(err) && command.ignoreNotFound:
		case apierrors.IsNotFound(err) && len(targets) == 1:
			var out output
			fmt.Fprintf(&out.stderr, "Error from server (NotFound): %v\n", err)
			return out, errNotFound
		case err != nil:
			return output{}, err
		default:
			results = append(results, result{target, found})
		}
	}
	if len(results) == 0 && command.ignoreNotFound {
		return output{}, nil
	}
	if command.human() {
		return command.printTables(c.namespaceFor(command), results)
	}
	return command.printObjects(results, implied)
}

func (c *connection) namespaceFor(command getCommand) string {
	if command.namespace != "" {
		return command.namespace
	}
	return c.namespace
}

// result is what the server returned for a target: an object, a list or a table.
type result struct {
	target target
	object runtime.Object
}

// tableTypes is what kubectl accepts when it prints for people.
const tableTypes = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json"

// request addresses a target.
func (c *connection) request(request *rest.Request, command getCommand, t target) *rest.Request {
	resource := t.mapping.Resource
	prefix := []string{"/apis", resource.Group, resource.Version}
	if resource.Group == "" {
		prefix = []string{"/api", resource.Version}
	}
	request.AbsPath(prefix...).Resource(resource.Resource)
	if t.namespaced() && !command.allNamespaces {
		request.Namespace(c.namespaceFor(command))
	}
	if t.name != "" {
		request.Name(t.name)
	}
	return request
}

func (c *connection) fetch(ctx context.Context, command getCommand, t target) (runtime.Object, error) {
	request := c.request(c.client.Get(), command, t)
	if t.name == "" {
		request.VersionedParams(&metav1.ListOptions{LabelSelector: command.labels, FieldSelector: command.fields, Limit: 500}, metav1.ParameterCodec)
	}
	if command.human() {
		request.SetHeader("Accept", tableTypes)
	}
	text, err := body(request.Do(ctx))
	if apierrors.IsNotFound(err) && t.namespaced() && c.namespaceFor(command) != metav1.NamespaceDefault {
		// kubectl says what is missing in the first place.
		namespace := c.client.Get().AbsPath("/api/v1/namespaces").Name(c.namespaceFor(command)).Do(ctx).Error()
		if apierrors.IsNotFound(namespace) {
			return nil, namespace
		}
	}
	if err != nil {
		return nil, err
	}
	object, err := runtime.Decode(unstructured.UnstructuredJSONScheme, text)
	if err != nil {
		return nil, err
	}
	if more, _ := meta.NewAccessor().Continue(object); more != "" {
		return nil, errOnlyKubectl
	}
	return object, nil
}

// body is a response's, unless there is more to print of it than kubectl's stdout.
func body(result rest.Result) ([]byte, error) {
	text, _ := result.Raw()
	err := result.Error()
	var status apierrors.APIStatus
	switch {
	case len(result.Warnings()) > 0:
		return nil, errOnlyKubectl
	case errors.As(err, &status) && status.Status().Code == 404 && unexpected(status):
		return nil, errStale
	}
	return text, err
}

// unexpected says that a response does not speak of an object, but comes from a server
// that knows no such address.
func unexpected(status apierrors.APIStatus) bool {
	details := status.Status().Details
	return details == nil || details.Name == "" || len(details.Causes) > 0
}

// same kubectl get …: a poll of that command prints the same as kubectl. With ! before
// it, the poll starts kubectl.
func same(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) < 2 || args[0] != "kubectl" {
		ts.Fatalf("usage: [!] same kubectl get …")
	}
	var theirs, ours output
	var theirErr, ourErr error
	for range 20 { // the age of an object may change between the two
		ours, ourErr = ts.Value(getterKey{}).(*getter).run(ts.MkAbs("."), environ(ts), args[1:])
		if errors.Is(ourErr, errOnlyKubectl) != neg {
			ts.Fatalf("without kubectl: %v\n%s", ourErr, ours)
		}
		if neg {
			return
		}
		theirs, theirErr = run(ts, "", args[0], args[1:]...)
		if (theirErr == nil) == (ourErr == nil) && theirs.stdout.String() == ours.stdout.String() && theirs.stderr.String() == ours.stderr.String() {
			return
		}
		<-time.After(pollInterval)
	}
	ts.Fatalf("kubectl: %v\n%s\n%s\nwithout kubectl: %v\n%s\n%s", theirErr, &theirs.stdout, &theirs.stderr, ourErr, &ours.stdout, &ours.stderr)
}

// TestPollsOfGetStartNoKubectl reads the scripts: a poll whose flags or format are not
// known here takes a fifth of a second of a processor, five times a second.
func TestPollsOfGetStartNoKubectl(t *testing.T) {
	t.Parallel()
	scripts, err := filepath.Glob("testdata/scripts/*.txtar")
	examples, err2 := filepath.Glob("../../examples/*/script.txtar")
	if err != nil || err2 != nil || len(scripts) == 0 || len(examples) == 0 {
		t.Fatalf("found %d scripts (%v) and %d of examples (%v)", len(scripts), err, len(examples), err2)
	}
	polls := 0
	for _, script := range append(scripts, examples...) {
		for _, args := range pollsOfGet(t, script) {
			polls++
			if _, known := parseGet(args); !known {
				t.Errorf("%s: kubectl %q", script, args)
			}
		}
	}
	if polls < 500 {
		t.Errorf("only %d polls found", polls)
	}
}

// pollsOfGet finds the arguments of kubectl in a script's polls of `kubectl get`.
func pollsOfGet(t *testing.T, script string) (found [][]string) {
	archive := must.Get(txtar.ParseFile(script)).In(t)
	variables := map[string]string{}
	for line := range strings.Lines(string(archive.Comment)) {
		words := scriptWords(line, variables)
		switch {
		case len(words) > 1 && words[0] == "env":
			name, value, _ := strings.Cut(words[1], "=")
			variables[name] = value
		case len(words) > 1 && (words[0] == "eventually" || words[0] == "stays"):
			at := slices.Index(words, "kubectl")
			if at > 0 && slices.Contains(words[at:], "get") {
				found = append(found, words[at+1:])
			}
		}
	}
	return found
}

// scriptWords splits a line as testscript does.
func scriptWords(line string, variables map[string]string) (words []string) {
	var word strings.Builder
	quoted, begun := false, false
	for part := range strings.SplitSeq(strings.TrimSpace(line), "'") {
		switch {
		case quoted:
			word.WriteString(part)
			begun = true
		case strings.HasPrefix(part, "#"):
			return words
		default:
			part = os.Expand(part, func(name string) string {
				value := cmp.Or(variables[name], name)
				return strings.ReplaceAll(value, " ", "\u00a0")
			})
			for i, piece := range strings.Split(part, " ") {
				if i > 0 {
					if begun || word.Len() > 0 {
						words = append(words, strings.ReplaceAll(word.String(), "\u00a0", " "))
					}
					word.Reset()
					begun = false
				}
				word.WriteString(piece)
			}
		}
		quoted = !quoted
	}
	if begun || word.Len() > 0 {
		words = append(words, strings.ReplaceAll(word.String(), "\u00a0", " "))
	}
	return words
}
