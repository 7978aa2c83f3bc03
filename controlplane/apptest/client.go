package apptest

import (
	"errors"
	"fmt"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// fieldManager is who tests are in server-side apply.
const fieldManager = "apptest"

// client reaches the API server of a control plane.
type client struct {
	kubeconfig string
	config     *rest.Config
	dynamic    dynamic.Interface
	discovery  discovery.DiscoveryInterface
	// known are the kinds that were found to be served.
	known sync.Map
}

// kind is a kind of object, in one version.
type kind struct{ apiVersion, kind string }

func (k kind) String() string { return k.kind + " of " + k.apiVersion }

// resource is a kind as it is served.
type resource struct {
	schema.GroupVersionResource

	namespaced, hasStatus bool
}

func newClient(kubeconfig string) (*client, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", kubeconfig, err)
	}
	config.QPS = -1 // The API server's priority and fairness is the limit.
	config.UserAgent = fieldManager
	config.WarningHandler = rest.NoWarnings{} // Tests may use deprecated versions.
	c := &client{kubeconfig: kubeconfig, config: config}
	if c.dynamic, err = dynamic.NewForConfig(config); err != nil {
		return nil, err
	}
	c.discovery, err = discovery.NewDiscoveryClientForConfig(config)
	return c, err
}

// errNotServed says that the API server has no such kind, which may change.
var errNotServed = errors.New("the API server has no such kind; is its CustomResourceDefinition applied?")

// find finds out how a kind is served.
func (c *client) find(k kind) (resource, error) {
	if found, ok := c.known.Load(k); ok {
		return found.(resource), nil
	}
	version, err := schema.ParseGroupVersion(k.apiVersion)
	if err != nil {
		return resource{}, err
	}
	resources, err := c.discovery.ServerResourcesForGroupVersion(k.apiVersion)
	if apierrors.IsNotFound(err) {
		err = errNotServed
	}
	if err != nil {
		return resource{}, fmt.Errorf("find %s: %w", k, err)
	}
	found, ok := pick(resources.APIResources, k.kind)
	if !ok {
		return resource{}, fmt.Errorf("find %s: %w", k, errNotServed)
	}
	found.Group, found.Version = version.Group, version.Version
	c.known.Store(k, found)
	return found, nil
}

// pick finds a kind among the served resources of a version.
func pick(served []metav1.APIResource, name string) (found resource, ok bool) {
	statuses := map[string]bool{}
	for _, one := range served {
		plural, sub, isSub := strings.Cut(one.Name, "/")
		switch {
		case sub == "status":
			statuses[plural] = true
		case !isSub && one.Kind == name:
			found.Resource, found.namespaced, ok = plural, one.Namespaced, true
		}
	}
	found.hasStatus = statuses[found.Resource]
	return found, ok
}

// objects returns the client for a kind in a namespace, or without one.
func (c *client) objects(r resource, namespace string) dynamic.ResourceInterface {
	if !r.namespaced {
		return c.dynamic.Resource(r.GroupVersionResource)
	}
	return c.dynamic.Resource(r.GroupVersionResource).Namespace(namespace)
}

// collections are the kinds of what lives in namespaces and can be deleted.
func (c *client) collections() ([]resource, error) {
	lists, err := discovery.ServerPreferredNamespacedResources(c.discovery)
	if err != nil {
		return nil, err
	}
	var all []resource
	for _, each := range discovery.FilteredBy(discovery.SupportsAllVerbs{Verbs: []string{"list", "deletecollection"}}, lists) {
		version, err := schema.ParseGroupVersion(each.GroupVersion)
		if err != nil {
			return nil, err
		}
		for _, served := range each.APIResources {
			all = append(all, resource{GroupVersionResource: version.WithResource(served.Name), namespaced: true})
		}
	}
	return all, nil
}
