package supportbundle

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	"github.com/setpoint-dev/setpoint/internal/cli/client"
	"github.com/setpoint-dev/setpoint/internal/cli/command"
	"github.com/setpoint-dev/setpoint/internal/cli/processes"
	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/request"
)

// The limits of what is read: failing objects of a controller, runs of an object, items of a list, lines of a log.
const (
	maxObjects  = 10
	maxRuns     = 5
	maxItems    = "500"
	maxLogLines = "2000"
)

// collector reads what the processes and the cluster say, as far as the user may read it.
type collector struct {
	*archive
	*processes.Session

	api rest.Interface
}

func (c *collector) read(ctx context.Context) {
	c.addJSON("version.json", command.ReadVersion(), nil)
	slices.SortStableFunc(c.Sources, func(x, y inspect.Source) int { return strings.Compare(x.Name(), y.Name()) })
	for i, source := range c.Sources {
		c.readProcess(ctx, source, fmt.Sprintf("processes/%d/", i+1))
	}
	config := rest.CopyConfig(c.Target.Config)
	config.Timeout = requestTimeout
	config.QPS = -1 // There are few requests, one after the other.
	var err error
	if c.api, err = request.NewClient(config); err != nil {
		c.miss("cluster", err)
		return
	}
	version, err := c.get(ctx, "/version")
	c.addText("cluster/version.json", version, err)
	for _, kind := range compile.Kinds() {
		name, version := kind.Resource.Plural+"."+kind.Resource.Group, kind.Resource.APIVersion()
		c.addList(ctx, "cluster/controllers/"+name, kind.Resource.Path("", ""))
		c.addList(ctx, "cluster/events/"+name, "/api/v1/events",
			"fieldSelector", "involvedObject.kind="+kind.Resource.Kind+",involvedObject.apiVersion="+version)
	}
	pods := map[string][]string{c.LeaseNamespace: nil}
	for _, pod := range c.PodsRead() {
		pods[pod.Namespace] = append(pods[pod.Namespace], pod.Pod)
	}
	if len(c.Sources) > 0 && len(c.PodsRead()) == 0 {
		c.miss("logs", errors.New("the processes do not run in pods; add what they print"))
	}
	for _, namespace := range slices.Sorted(maps.Keys(pods)) {
		c.readNamespace(ctx, namespace, pods[namespace])
	}
}

func (c *collector) readProcess(ctx context.Context, s inspect.Source, dir string) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	process, err := s.Process(ctx)
	c.addJSON(dir+"process.json", process, err)
	if err != nil {
		return // It does not respond.
	}
	for _, name := range inspect.Diagnostics {
		text, err := s.Diagnostic(ctx, name)
		if name == inspect.DiagnosticCommand { // A flag says whether the next argument is a secret.
			text = bytes.ReplaceAll(text, []byte("\n"), []byte(" "))
		}
		c.addText(dir+name+".txt", text, err)
	}
	all, err := s.Controllers(ctx)
	shown, hidden := c.Client.Controllers(ctx, all)
	c.addJSON(dir+"controllers.json", shown, err)
	if hidden > 0 {
		c.miss(dir+"controllers.json", fmt.Errorf("%d controllers that you may not read, or whose permissions are unknown", hidden))
	}
	failing := []failingObject{}
	for i := range shown {
		if shown[i].Failing+shown[i].Conflicting > 0 {
			failing = append(failing, c.failing(ctx, s, shown[i].Name, dir+"failing.json")...)
		}
	}
	c.addJSON(dir+"failing.json", failing, nil)
}

// failingObject is what `setpoint get` and `setpoint why` say of an object.
type failingObject struct {
	State client.VisibleState `json:"state"`
	Runs  []inspect.Run       `json:"runs"`
}

// failing reads the objects of a controller with the most severe states, and their runs.
func (c *collector) failing(ctx context.Context, s inspect.Source, controller, file string) (all []failingObject) {
	page, err := s.Objects(ctx, controller, inspect.Query{Limit: maxObjects})
	for _, o := range page.Objects {
		if o.Problem() == "" || !c.Client.Can(ctx, "get", o.Kind, o.Namespace, o.Name) {
			continue
		}
		runs, unread := s.Runs(ctx, o.Ref, maxRuns)
		err = errors.Join(err, unread)
		runs = lists.Map(runs, func(run inspect.Run) inspect.Run { return c.Client.Redact(ctx, run) })
		all = append(all, failingObject{c.Client.State(ctx, o), runs})
	}
	if err != nil {
		c.miss(file, err)
	}
	if more := page.States[inspect.StateFailing] + page.States[inspect.StateConflicting] - len(all); more > 0 {
		c.miss(file, fmt.Errorf("%d objects of %s, beyond the first %d or not yours to read", more, controller, maxObjects))
	}
	return all
}

// readNamespace reads a namespace of Setpoint. Pods are those with its label, and those of the processes.
func (c *collector) readNamespace(ctx context.Context, namespace string, names []string) {
	folder, in := "namespaces/"+namespace+"/", "/namespaces/"+namespace+"/"
	c.addList(ctx, folder+"events", "/api/v1"+in+"events")
	c.addList(ctx, folder+"leases", "/apis/coordination.k8s.io/v1"+in+"leases")
	pods := c.addList(ctx, folder+"pods", "/api/v1"+in+"pods", "labelSelector", "app.kubernetes.io/name=setpoint")
	for _, name := range names {
		pods = append(pods, c.addList(ctx, folder+"pods/"+name, "/api/v1"+in+"pods", "fieldSelector", "metadata.name="+name)...)
	}
	logged := map[string]bool{}
	for i := range pods {
		var pod corev1.Pod
		err := runtime.DefaultUnstructuredConverter.FromUnstructured(pods[i].Object, &pod)
		if err != nil || logged[pod.Name] {
			continue
		}
		logged[pod.Name] = true
		for _, status := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
			file, path := folder+"logs/"+pod.Name+"/"+status.Name, "/api/v1"+in+"pods/"+pod.Name+"/log"
			c.addLog(ctx, file+".log", path, "container", status.Name)
			if status.RestartCount > 0 {
				c.addLog(ctx, file+".previous.log", path, "container", status.Name, "previous", "true")
			}
		}
	}
}

func (c *collector) addLog(ctx context.Context, file, path string, parameters ...string) {
	text, err := c.get(ctx, path, append(parameters, "tailLines", maxLogLines)...)
	if over := len(text) - maxFile/2; over > 0 { // What is left of a line has no names that would say what is secret.
		_, text, _ = bytes.Cut(text[over:], []byte("\n"))
	}
	c.addText(file, text, err)
}

// addList adds the first page of a list, and returns it.
func (c *collector) addList(ctx context.Context, file, path string, parameters ...string) []unstructured.Unstructured {
	var found unstructured.UnstructuredList
	data, err := c.get(ctx, path, append(parameters, "limit", maxItems)...)
	if err == nil {
		err = found.UnmarshalJSON(data)
	}
	if found.GetContinue() != "" {
		c.miss(file+".json", fmt.Errorf("all but the first %d objects", len(found.Items)))
	}
	c.addJSON(file+".json", found.UnstructuredContent(), err)
	return found.Items
}

// get sends one request, with pairs of a parameter's name and value.
func (c *collector) get(ctx context.Context, path string, parameters ...string) ([]byte, error) {
	get := c.api.Get().AbsPath(path)
	for pair := range slices.Chunk(parameters, 2) {
		get = get.Param(pair[0], pair[1])
	}
	return request.Do(ctx, get)
}
