package e2e

import (
	"context"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/tools/clientcmd"
)

// useNamespace creates a namespace, and makes it the default of a kubeconfig. The client
// is this process's own: each script begins and ends like this, so that kubectl would be
// started some five hundred times for it.
func (g *getter) useNamespace(kubeconfig, namespace string) error {
	config, err := clientcmd.LoadFromFile(kubeconfig)
	if err != nil {
		return err
	}
	current := config.Contexts[config.CurrentContext]
	if current == nil {
		return fmt.Errorf("%s has no current context", kubeconfig)
	}
	current.Namespace = namespace
	if err := clientcmd.WriteToFile(*config, kubeconfig); err != nil {
		return err
	}
	c, err := g.connect("", nil, getCommand{kubeconfig: kubeconfig})
	if err != nil {
		return err
	}
	body := fmt.Sprintf(`{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": %q}}`, namespace)
	return c.client.Post().AbsPath("/api/v1/namespaces").SetHeader("Content-Type", "application/json").
		Body([]byte(body)).Do(context.Background()).Error()
}

// waitForServiceAccount waits until pods can start in a kubeconfig's namespace.
func (g *getter) waitForServiceAccount(kubeconfig string) error {
	deadline := time.Now().Add(time.Minute)
	for {
		out, err := g.run("", nil, []string{"--kubeconfig", kubeconfig, "get", "serviceaccount", "default", "-o", "name"})
		if err == nil {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("wait for the default service account: %w\n%s", err, out)
		}
		<-time.After(pollInterval / 4)
	}
}

// deleteManifests starts the deletion of objects, of which some may not exist.
func (g *getter) deleteManifests(environ []string, text string) {
	c, err := g.connect("", environ, getCommand{})
	if err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), requestTimeout)
	defer cancel()
	manifests := yaml.NewYAMLOrJSONDecoder(strings.NewReader(text), 4096)
	for {
		object := &unstructured.Unstructured{}
		if err := manifests.Decode(&object.Object); err != nil {
			return // the end, or what kubectl did not apply either
		}
		if object.GetName() != "" {
			_ = c.delete(ctx, object) // it may be gone already, or it never came
		}
	}
}

func (c *connection) delete(ctx context.Context, object *unstructured.Unstructured) error {
	kind := object.GroupVersionKind()
	mapping, err := c.mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if meta.IsNoMatchError(err) {
		c.mapper.Reset()
		mapping, err = c.mapper.RESTMapping(kind.GroupKind(), kind.Version)
	}
	if err != nil {
		return err
	}
	command := getCommand{namespace: object.GetNamespace()}
	return c.request(c.client.Delete(), command, target{mapping, object.GetName()}).
		SetHeader("Content-Type", "application/json").
		Body([]byte(`{"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background"}`)).
		Do(ctx).Error()
}
