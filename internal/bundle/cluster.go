package bundle

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
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
)

// The limits of what is read of the cluster.
const (
	maxItems    = 500
	maxLogLines = 2000
)

// cluster reads what the API server knows of Setpoint.
type cluster struct {
	*archive

	options *Options
	client  rest.Interface
}

func newCluster(a *archive, o *Options) (*cluster, error) {
	config := rest.CopyConfig(o.Config)
	config.APIPath, config.GroupVersion = "/", &schema.GroupVersion{}
	known := runtime.NewScheme()
	metav1.AddToGroupVersion(known, schema.GroupVersion{Version: "v1"}) // decodes Status
	config.NegotiatedSerializer = serializer.NewCodecFactory(known).WithoutConversion()
	config.AcceptContentTypes = "application/json"
	config.QPS = -1 // There are few requests, one after the other.
	client, err := rest.UnversionedRESTClientFor(config)
	return &cluster{archive: a, options: o, client: client}, err
}

func (c *cluster) read(ctx context.Context) {
	if data, err := c.get(ctx, "/version"); err != nil {
		c.miss("cluster/version.json", err)
	} else {
		c.addText("cluster/version.json", data)
	}
	for _, each := range []struct{ group, plural, kind string }{
		{"setpoint.dev", "admissioncontrollers", "AdmissionController"},
		{"setpoint.dev", "compositecontrollers", "CompositeController"},
		{"setpoint.dev", "decoratorcontrollers", "DecoratorController"},
		{"setpoint.dev", "handlercontrollers", "HandlerController"},
		{"metacontroller.k8s.io", "compositecontrollers", ""},
		{"metacontroller.k8s.io", "decoratorcontrollers", ""},
	} {
		c.addList(ctx, "cluster/controllers/"+each.plural+"."+each.group, "/apis/"+each.group+"/v1alpha1/"+each.plural)
		if each.kind != "" { // The events of both groups have the same kind.
			c.addList(ctx, "cluster/events/"+each.plural, "/api/v1/events", "fieldSelector", "involvedObject.kind="+each.kind)
		}
	}
	for _, namespace := range c.options.Namespaces {
		c.readNamespace(ctx, namespace)
	}
}

// readNamespace reads a namespace of Setpoint. Pods are those with its label, and those of the processes.
func (c *cluster) readNamespace(ctx context.Context, namespace string) {
	folder, in := "namespaces/"+namespace+"/", "/namespaces/"+namespace+"/"
	for _, path := range []string{"/api/v1" + in + "events", "/apis/apps/v1" + in + "deployments", "/apis/coordination.k8s.io/v1" + in +
		"leases"} {
		c.addList(ctx, folder+path[strings.LastIndex(path, "/")+1:], path)
	}
	labeled := c.addList(ctx, folder+"pods", "/api/v1"+in+"pods", "labelSelector", "app.kubernetes.io/name=setpoint")
	c.addLogs(ctx, labeled)
	for _, pod := range c.options.Pods {
		known := slices.ContainsFunc(labeled,
			func(o map[string]any) bool { return (&unstructured.Unstructured{Object: o}).GetName() == pod.Name })
		if pod.Namespace == namespace && !known {
			c.addLogs(ctx, c.addList(ctx, folder+"pods/"+pod.Name, "/api/v1"+in+"pods", "fieldSelector", "metadata.name="+pod.Name))
		}
	}
}

// get sends one request, with pairs of a parameter's name and value.
func (c *cluster) get(ctx context.Context, path string, parameters ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	request := c.client.Get().AbsPath(path)
	for pair := range slices.Chunk(parameters, 2) {
		request = request.Param(pair[0], pair[1])
	}
	result := request.Do(ctx)
	if err := result.Error(); err != nil { // with what the API server says in it
		return nil, err
	}
	return result.Raw()
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
	if err != nil {
		c.miss(file, err)
		return nil
	}
	if found.Metadata.Continue != "" {
		c.miss(file, fmt.Errorf("all but the first %d objects", len(found.Items)))
	}
	for _, o := range found.Items { // Items of a list have no type.
		o["apiVersion"], o["kind"] = found.APIVersion, strings.TrimSuffix(found.Kind, "List")
	}
	c.addObjects(file, found.Items)
	return found.Items
}

// addLogs adds the logs of the containers of pods, also of those before a restart.
func (c *cluster) addLogs(ctx context.Context, pods []map[string]any) {
	for _, o := range pods {
		var pod corev1.Pod
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o, &pod); err != nil {
			c.miss("logs", err)
			continue
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
	file := "namespaces/" + pod.Namespace + "/logs/" + pod.Name + "/" + container + ".log"
	if previous {
		file = strings.TrimSuffix(file, "log") + "previous.log"
	}
	text, err := c.get(ctx, "/api/v1/namespaces/"+pod.Namespace+"/pods/"+pod.Name+"/log", "container", container,
		"previous", strconv.FormatBool(previous), "tailLines", strconv.Itoa(maxLogLines))
	if err != nil {
		c.miss(file, err)
		return
	}
	c.addText(file, lastLines(text, maxFile/2))
}

// lastLines returns the end of a log: what is left of a line has no names that would say what is secret.
func lastLines(log []byte, most int) []byte {
	if len(log) <= most {
		return log
	}
	_, lines, _ := bytes.Cut(log[len(log)-most:], []byte("\n"))
	return lines
}
