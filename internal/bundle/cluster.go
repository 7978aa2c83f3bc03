package bundle

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
)

// The limits of what is read of the cluster.
const (
	maxItems   = 500
	maxLogSize = 4 << 20
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

// list is what a list of objects is read from.
type list struct {
	file, path string
	// fields is a field selector, labels a label selector.
	fields, labels string
	// keep selects objects; nil keeps all.
	keep func(o map[string]any) bool
}

func (c *cluster) read(ctx context.Context) {
	c.options.Progress("cluster")
	if data, err := c.get(ctx, list{path: "/version"}); err != nil {
		c.miss("cluster/version.json", err)
	} else {
		c.addText("cluster/version.json", data)
	}
	for _, each := range c.clusterLists() {
		c.addList(ctx, each)
	}
	c.addCRDs(ctx)
	for _, namespace := range c.options.Namespaces {
		c.options.Progress("namespace " + namespace)
		for _, each := range namespaceLists(namespace) {
			c.addList(ctx, each)
		}
	}
	c.addPods(ctx)
}

// controllerKinds are the kinds that declare controllers.
var controllerKinds = []struct{ group, plural, kind string }{
	{"setpoint.dev", "admissioncontrollers", "AdmissionController"},
	{"setpoint.dev", "compositecontrollers", "CompositeController"},
	{"setpoint.dev", "decoratorcontrollers", "DecoratorController"},
	{"setpoint.dev", "handlercontrollers", "HandlerController"},
	{"metacontroller.k8s.io", "compositecontrollers", "CompositeController"},
	{"metacontroller.k8s.io", "decoratorcontrollers", "DecoratorController"},
}

func (c *cluster) clusterLists() (all []list) {
	for _, k := range controllerKinds {
		name := k.plural + "." + k.group
		all = append(all, list{file: "cluster/controllers/" + name + ".yaml", path: "/apis/" + k.group + "/v1alpha1/" + k.plural})
	}
	for _, kind := range []string{"AdmissionController", "CompositeController", "DecoratorController", "HandlerController"} {
		all = append(all, list{file: "cluster/events/" + strings.ToLower(kind) + "s.yaml", path: "/api/v1/events", fields: "involvedObject.kind=" + kind})
	}
	return append(all,
		list{file: "cluster/webhooks/mutating.yaml", path: "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations", keep: ofSetpoint},
		list{file: "cluster/webhooks/validating.yaml", path: "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations", keep: ofSetpoint},
		list{file: "cluster/rbac/clusterroles.yaml", path: "/apis/rbac.authorization.k8s.io/v1/clusterroles", keep: ofSetpoint},
		list{file: "cluster/rbac/clusterrolebindings.yaml", path: "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", keep: c.binds},
	)
}

func namespaceLists(namespace string) []list {
	dir := "namespaces/" + namespace + "/"
	in := func(api, plural string) list {
		return list{file: dir + plural + ".yaml", path: api + "/namespaces/" + namespace + "/" + plural}
	}
	return []list{
		in("/api/v1", "events"), in("/api/v1", "services"), in("/api/v1", "serviceaccounts"),
		in("/apis/apps/v1", "deployments"), in("/apis/apps/v1", "replicasets"), in("/apis/apps/v1", "statefulsets"),
		in("/apis/coordination.k8s.io/v1", "leases"), in("/apis/networking.k8s.io/v1", "networkpolicies"),
		in("/apis/rbac.authorization.k8s.io/v1", "roles"), in("/apis/rbac.authorization.k8s.io/v1", "rolebindings"),
	}
}

// ofSetpoint reports whether an object has a name or a label of Setpoint.
func ofSetpoint(o map[string]any) bool {
	metadata, _ := o["metadata"].(map[string]any)
	name, _ := metadata["name"].(string)
	labels, _ := metadata["labels"].(map[string]any)
	for label := range labels {
		if strings.Contains(label, "setpoint.dev/") {
			return true
		}
	}
	return strings.Contains(name, "setpoint")
}

// binds reports whether a binding has a name of Setpoint, or a ServiceAccount in one of its namespaces.
func (c *cluster) binds(o map[string]any) bool {
	subjects, _ := o["subjects"].([]any)
	return ofSetpoint(o) || slices.ContainsFunc(subjects, func(subject any) bool {
		fields, _ := subject.(map[string]any)
		namespace, _ := fields["namespace"].(string)
		return slices.Contains(c.options.Namespaces, namespace) && namespace != "default" && namespace != "kube-system"
	})
}

// get sends one request.
func (c *cluster) get(ctx context.Context, l list) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	request := c.client.Get().AbsPath(l.path).Param("limit", strconv.Itoa(maxItems))
	if l.fields != "" {
		request = request.Param("fieldSelector", l.fields)
	}
	if l.labels != "" {
		request = request.Param("labelSelector", l.labels)
	}
	return raw(request.Do(ctx))
}

// raw returns a response, or the error that the API server describes in it.
func raw(result rest.Result) ([]byte, error) {
	if err := result.Error(); err != nil {
		return nil, err
	}
	return result.Raw()
}

// page is one page of a list.
type page struct {
	APIVersion, Kind string
	Metadata         struct {
		Continue           string
		RemainingItemCount int64
	}
	Items []map[string]any
}

// items reads the first page of a list.
func (c *cluster) items(ctx context.Context, l list) ([]map[string]any, error) {
	data, err := c.get(ctx, l)
	if err != nil {
		return nil, err
	}
	var found page
	if err := json.Unmarshal(data, &found); err != nil {
		return nil, fmt.Errorf("decode: %w", err)
	}
	if found.Metadata.Continue != "" {
		c.miss(l.file, fmt.Errorf("all but the first %d objects (%d more)", len(found.Items), found.Metadata.RemainingItemCount))
	}
	kept := []map[string]any{}
	for _, o := range found.Items {
		// Items of a list have no type.
		o["apiVersion"], o["kind"] = found.APIVersion, strings.TrimSuffix(found.Kind, "List")
		if l.keep == nil || l.keep(o) {
			kept = append(kept, o)
		}
	}
	return kept, nil
}

// addList adds a list.
func (c *cluster) addList(ctx context.Context, l list) {
	found, err := c.items(ctx, l)
	if err != nil {
		c.miss(l.file, err)
		return
	}
	c.addObjects(l.file, found)
}

// addCRDs adds the CRDs of controllers, without their schemas.
func (c *cluster) addCRDs(ctx context.Context) {
	const file, path = "cluster/crds.yaml", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/"
	var all []map[string]any
	for _, k := range controllerKinds {
		name := k.plural + "." + k.group
		data, err := c.get(ctx, list{path: path + name})
		if apierrors.IsNotFound(err) {
			continue
		}
		var crd map[string]any
		if err == nil {
			err = json.Unmarshal(data, &crd)
		}
		if _, responded := errors.AsType[*apierrors.StatusError](err); err != nil && !responded {
			c.miss(file, err)
			break // The next would fail for the same reason.
		}
		if err != nil {
			c.miss(file, err)
			continue
		}
		spec, _ := crd["spec"].(map[string]any)
		versions, _ := spec["versions"].([]any)
		for _, version := range versions {
			if fields, ok := version.(map[string]any); ok {
				delete(fields, "schema")
			}
		}
		all = append(all, crd)
	}
	c.addObjects(file, all)
}

// addPods adds the pods of Setpoint with their logs: those with its label, and those of the processes.
func (c *cluster) addPods(ctx context.Context) {
	for _, namespace := range c.options.Namespaces {
		file := "namespaces/" + namespace + "/pods.yaml"
		found, err := c.items(ctx, list{file: file, path: "/api/v1/namespaces/" + namespace + "/pods", labels: "app.kubernetes.io/name=setpoint"})
		if err != nil {
			c.miss(file, err)
		}
		for _, pod := range c.options.Pods {
			known := slices.ContainsFunc(found, func(o map[string]any) bool { return keyOf(o) == "Pod/"+pod.Namespace+"/"+pod.Name })
			if pod.Namespace != namespace || known {
				continue
			}
			data, err := c.get(ctx, list{path: "/api/v1/namespaces/" + namespace + "/pods/" + pod.Name})
			var o map[string]any
			if err == nil {
				err = json.Unmarshal(data, &o)
			}
			if err != nil {
				c.miss(file, err)
				continue
			}
			found = append(found, o)
		}
		for _, pod := range found {
			c.addLogs(ctx, namespace, pod)
		}
		if err == nil || len(found) > 0 {
			c.addObjects(file, found)
		}
	}
}

// addLogs adds the logs of the containers of a pod, also of those before a restart.
func (c *cluster) addLogs(ctx context.Context, namespace string, o map[string]any) {
	var pod corev1.Pod
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o, &pod); err != nil {
		c.miss("namespaces/"+namespace+"/logs", err)
		return
	}
	c.options.Progress("logs of " + pod.Name)
	statuses := slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses)
	for _, container := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		file := "namespaces/" + namespace + "/logs/" + pod.Name + "/" + container.Name
		c.addLog(ctx, file+".log", &pod, container.Name, false)
		for _, status := range statuses {
			if status.Name == container.Name && status.RestartCount > 0 {
				c.addLog(ctx, file+".previous.log", &pod, container.Name, true)
			}
		}
	}
}

func (c *cluster) addLog(ctx context.Context, file string, pod *corev1.Pod, container string, previous bool) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	log, err := c.client.Get().AbsPath("/api/v1/namespaces/"+pod.Namespace+"/pods/"+pod.Name+"/log").
		Param("container", container).Param("previous", strconv.FormatBool(previous)).
		Param("tailLines", strconv.FormatInt(c.options.LogLines, 10)).Stream(ctx)
	if err != nil {
		c.miss(file, err)
		return
	}
	defer func() { _ = log.Close() }() // Reading it has shown all errors.
	text, left, err := tail(log, maxLogSize)
	if left > 0 {
		err = errors.Join(fmt.Errorf("the first %d bytes", left), err)
	}
	if err != nil {
		c.miss(file, err)
	}
	c.addText(file, text)
}

// tail returns the last lines of a log, and how many bytes before them are left out. The limitBytes of the API server
// would leave out the last ones.
func tail(log io.Reader, most int) (text []byte, left int, err error) {
	chunk := make([]byte, 32<<10)
	for err == nil {
		var n int
		n, err = log.Read(chunk)
		text = append(text, chunk[:n]...)
		if cut := len(text) - most; cut > most {
			left, text = left+cut, append(text[:0], text[cut:]...)
		}
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	if cut := len(text) - most; cut > 0 {
		left, text = left+cut, text[cut:]
	}
	if left > 0 { // What is left of a line has no names that would say what is secret.
		_, lines, _ := bytes.Cut(text, []byte("\n"))
		left, text = left+len(text)-len(lines), lines
	}
	return text, left, err
}
