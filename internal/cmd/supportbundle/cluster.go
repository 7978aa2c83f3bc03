package supportbundle

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/inspect/locate/portforward"
	"github.com/setpoint-dev/setpoint/internal/request"
)

// The limits of what is read of the cluster.
const (
	maxItems    = 500
	maxLogLines = 2000
)

// cluster reads what the API server knows of Setpoint.
type cluster struct {
	*archive

	client rest.Interface
	// pods are those of the processes, namespaces those of Setpoint.
	pods       []portforward.Location
	namespaces []string
}

// newClient returns a client for requests to any path.
func newClient(of *rest.Config) (rest.Interface, error) {
	config := rest.CopyConfig(of)
	config.APIPath, config.GroupVersion, config.NegotiatedSerializer = "/", &schema.GroupVersion{}, scheme.Codecs.WithoutConversion()
	config.QPS = -1 // There are few requests, one after the other.
	return rest.RESTClientFor(config)
}

func (c *cluster) read(ctx context.Context) {
	version, err := c.get(ctx, "/version")
	c.addText("cluster/version.json", version, err)
	for _, kind := range compile.Kinds() {
		name, version := kind.Resource.Plural+"."+kind.Resource.Group, kind.Resource.APIVersion()
		c.addList(ctx, "cluster/controllers/"+name, kind.Resource.Path("", ""))
		c.addList(ctx, "cluster/events/"+name, "/api/v1/events",
			"fieldSelector", "involvedObject.kind="+kind.Resource.Kind+",involvedObject.apiVersion="+version)
	}
	for _, namespace := range c.namespaces {
		c.readNamespace(ctx, namespace)
	}
}

// readNamespace reads a namespace of Setpoint. Pods are those with its label, and those of the processes.
func (c *cluster) readNamespace(ctx context.Context, namespace string) {
	folder, in := "namespaces/"+namespace+"/", "/namespaces/"+namespace+"/"
	c.addList(ctx, folder+"events", "/api/v1"+in+"events")
	c.addList(ctx, folder+"deployments", "/apis/apps/v1"+in+"deployments")
	c.addList(ctx, folder+"leases", "/apis/coordination.k8s.io/v1"+in+"leases")
	labeled := c.addList(ctx, folder+"pods", "/api/v1"+in+"pods", "labelSelector", "app.kubernetes.io/name=setpoint")
	c.addLogs(ctx, labeled)
	for _, pod := range c.pods {
		named := func(o map[string]any) bool { return (&unstructured.Unstructured{Object: o}).GetName() == pod.Pod }
		if pod.Namespace == namespace && !slices.ContainsFunc(labeled, named) {
			c.addLogs(ctx, c.addList(ctx, folder+"pods/"+pod.Pod, "/api/v1"+in+"pods", "fieldSelector", "metadata.name="+pod.Pod))
		}
	}
}

// get sends one request, with pairs of a parameter's name and value.
func (c *cluster) get(ctx context.Context, path string, parameters ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	get := c.client.Get().AbsPath(path)
	for pair := range slices.Chunk(parameters, 2) {
		get = get.Param(pair[0], pair[1])
	}
	return request.Do(ctx, get)
}

// addList adds the first page of a list, and returns it.
func (c *cluster) addList(ctx context.Context, file, path string, parameters ...string) []map[string]any {
	file += ".yaml"
	var found struct {
		APIVersion, Kind string
		Metadata         metav1.ListMeta
		Items            []map[string]any
	}
	data, err := c.get(ctx, path, append(parameters, "limit", strconv.Itoa(maxItems))...)
	if err == nil {
		err = json.Unmarshal(data, &found)
	}
	if found.Metadata.Continue != "" {
		c.miss(file, fmt.Errorf("all but the first %d objects", len(found.Items)))
	}
	for _, o := range found.Items { // Items of a list have no type.
		o["apiVersion"], o["kind"] = found.APIVersion, strings.TrimSuffix(found.Kind, "List")
	}
	c.addObjects(file, found.Items, err)
	return found.Items
}

// addLogs adds the logs of the containers of pods, also of those before a restart.
func (c *cluster) addLogs(ctx context.Context, pods []map[string]any) {
	for _, o := range pods {
		var pod corev1.Pod
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o, &pod); err != nil {
			c.miss("logs", err)
		}
		for _, status := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
			c.addLog(ctx, &pod, status.Name, false)
			if status.RestartCount > 0 {
				c.addLog(ctx, &pod, status.Name, true)
			}
		}
	}
}

func (c *cluster) addLog(ctx context.Context, pod *corev1.Pod, container string, previous bool) {
	file := "namespaces/" + pod.Namespace + "/logs/" + pod.Name + "/" + container + map[bool]string{true: ".previous"}[previous] + ".log"
	text, err := c.get(ctx, "/api/v1/namespaces/"+pod.Namespace+"/pods/"+pod.Name+"/log", "container", container,
		"previous", strconv.FormatBool(previous), "tailLines", strconv.Itoa(maxLogLines))
	if over := len(text) - maxFile/2; over > 0 { // What is left of a line has no names that would say what is secret.
		_, text, _ = bytes.Cut(text[over:], []byte("\n"))
	}
	c.addText(file, text, err)
}
