package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
)

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
