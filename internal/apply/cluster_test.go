package apply_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apimachinery/pkg/util/managedfields/managedfieldstest"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/applyconfigurations"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/setpoint-dev/setpoint/internal/apply"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// cluster is a fake API server. It tracks managed fields with the server's own code and schemas,
// decodes and defaults objects as the server does, and has built-in kinds only.
type cluster struct {
	t       *testing.T
	types   managedfields.TypeConverter
	mu      sync.Mutex
	objects map[string]*unstructured.Unstructured
	version int
	// log has a line for each write request.
	log []string
}

func newCluster(t *testing.T) *cluster {
	return &cluster{t: t, types: applyconfigurations.NewTypeConverter(scheme.Scheme), objects: map[string]*unstructured.Unstructured{}}
}

func (c *cluster) writer(options apply.Options) *apply.Writer {
	return (&server{}).writer(c.t, options, c.serve)
}

// kindOf are the kinds by their plural.
var kindOf = map[string]object.Resource{
	"configmaps":      {Version: "v1", Plural: "configmaps", Kind: "ConfigMap", Namespaced: true},
	"secrets":         {Version: "v1", Plural: "secrets", Kind: "Secret", Namespaced: true},
	"services":        {Version: "v1", Plural: "services", Kind: "Service", Namespaced: true, Status: true},
	"pods":            {Version: "v1", Plural: "pods", Kind: "Pod", Namespaced: true, Status: true},
	"deployments":     {Group: "apps", Version: "v1", Plural: "deployments", Kind: "Deployment", Namespaced: true, Status: true},
	"statefulsets":    {Group: "apps", Version: "v1", Plural: "statefulsets", Kind: "StatefulSet", Namespaced: true, Status: true},
	"networkpolicies": {Group: "networking.k8s.io", Version: "v1", Plural: "networkpolicies", Kind: "NetworkPolicy", Namespaced: true},
}

// apiRequest is one request.
type apiRequest struct {
	*http.Request
	resource object.Resource
	name     string
	body     []byte
}

func (c *cluster) serve(w http.ResponseWriter, r *http.Request) {
	path := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	at := slices.Index(path, "namespaces") + 2
	request := apiRequest{Request: r, resource: kindOf[path[at]]}
	if len(path) > at+1 {
		request.name = path[at+1]
	}
	var err error
	if request.body, err = io.ReadAll(r.Body); err != nil {
		c.t.Error(err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	respond, err := c.respond(&request)
	if err != nil {
		status, known := err.(apierrors.APIStatus)
		if !known {
			status = apierrors.NewBadRequest(err.Error())
		}
		refused := status.Status()
		refused.Kind, refused.APIVersion = "Status", "v1"
		w.WriteHeader(int(refused.Code))
		_ = json.NewEncoder(w).Encode(refused)
		return
	}
	_ = json.NewEncoder(w).Encode(respond)
}

func (c *cluster) respond(r *apiRequest) (*unstructured.Unstructured, error) {
	if r.Method != http.MethodGet {
		c.log = append(c.log, r.key()+": "+r.summary())
	}
	live := c.objects[r.key()]
	switch {
	case r.Method == http.MethodPost:
		return c.post(r)
	case live == nil && r.Header.Get("Content-Type") == string(types.ApplyPatchType):
		return nil, apierrors.NewConflict(schema.GroupResource{}, r.name, fmt.Errorf("uid mismatch: no existing object was found"))
	case live == nil:
		return nil, apierrors.NewNotFound(schema.GroupResource{Resource: r.resource.Plural}, r.name)
	case r.Method == http.MethodGet:
		return live, nil
	case r.Method == http.MethodDelete:
		if !r.dryRun() {
			delete(c.objects, r.key())
		}
		return live, nil
	case r.Header.Get("Content-Type") == string(types.ApplyPatchType):
		return c.applied(r, live)
	case r.Header.Get("Content-Type") == string(types.JSONPatchType):
		return c.edited(r, live)
	}
	return c.put(r, live)
}

// dryRun looks at the body of a deletion, where the server ignores the query.
func (r *apiRequest) dryRun() bool {
	if r.Method == http.MethodDelete {
		return strings.Contains(string(r.body), `"dryRun":["All"]`)
	}
	return r.URL.Query().Get("dryRun") != ""
}

func (r *apiRequest) manager() string { return r.URL.Query().Get("fieldManager") }
func (r *apiRequest) key() string     { return keyOf(r.resource, cmp.Or(r.name, nameIn(r.body))) }

func keyOf(r object.Resource, name string) string { return r.Plural + "/" + name }

// summary returns a line about the request.
func (r *apiRequest) summary() string {
	words := r.Method
	if r.Method == http.MethodPatch {
		words, _, _ = strings.Cut(strings.TrimPrefix(r.Header.Get("Content-Type"), "application/"), "+")
	}
	if r.dryRun() {
		words += ", dry"
	}
	return words
}

func nameIn(body []byte) string {
	var o metav1.PartialObjectMetadata
	_ = json.Unmarshal(body, &o)
	return o.Name
}

func (c *cluster) post(r *apiRequest) (*unstructured.Unstructured, error) {
	o, err := r.decoded(r.body)
	if err != nil {
		return nil, err
	}
	// The server validates before it compares with the stored object.
	if invalid := validate(nil, o); invalid != nil {
		return nil, invalid
	}
	if c.objects[r.key()] != nil {
		return nil, apierrors.NewAlreadyExists(schema.GroupResource{Resource: r.resource.Plural}, o.GetName())
	}
	none := &unstructured.Unstructured{}
	none.SetGroupVersionKind(r.kind())
	o.SetUID(types.UID(fmt.Sprint("uid-", len(c.log))))
	o.SetGeneration(1)
	return c.store(r, none, c.manage(r).UpdateNoErrors(none, o, r.manager()).(*unstructured.Unstructured))
}

func (c *cluster) put(r *apiRequest, live *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	o, err := r.decoded(r.body)
	if err != nil {
		return nil, err
	}
	return c.updated(r, live, o)
}

func (c *cluster) updated(r *apiRequest, live, o *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	return c.store(r, live, c.manage(r).UpdateNoErrors(live.DeepCopy(), o, r.manager()).(*unstructured.Unstructured))
}

func (c *cluster) applied(r *apiRequest, live *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	config := &unstructured.Unstructured{}
	if err := config.UnmarshalJSON(r.body); err != nil {
		return nil, err
	}
	merged, err := c.manage(r).Apply(live.DeepCopy(), config, r.manager(), r.URL.Query().Get("force") == "true")
	if err != nil {
		return nil, err
	}
	if merged == nil {
		return live, nil
	}
	text, err := json.Marshal(merged)
	if err != nil {
		return nil, err
	}
	o, err := r.decoded(text)
	if err != nil {
		return nil, err
	}
	o.SetManagedFields(merged.(*unstructured.Unstructured).GetManagedFields())
	return c.store(r, live, o)
}

// edited applies the JSON patch operations that Setpoint uses.
func (c *cluster) edited(r *apiRequest, live *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	var edits []struct {
		Op, Path string
		Value    any
	}
	if err := json.Unmarshal(r.body, &edits); err != nil {
		return nil, err
	}
	o := live.DeepCopy()
	for _, e := range edits {
		path := strings.Split(strings.TrimPrefix(e.Path, "/"), "/")
		for i := range path {
			path[i] = strings.NewReplacer("~1", "/", "~0", "~").Replace(path[i])
		}
		if len(path) > 2 && path[1] == "managedFields" {
			if err := editManagedFields(o, e.Op, path[2:], e.Value); err != nil {
				return nil, err
			}
			continue
		}
		if _, there, _ := unstructured.NestedFieldNoCopy(o.Object, path...); !there {
			return nil, fmt.Errorf("%s: there is no %s", e.Op, e.Path)
		}
		if e.Op == "remove" {
			unstructured.RemoveNestedField(o.Object, path...)
			continue
		}
		if err := unstructured.SetNestedField(o.Object, e.Value, path...); err != nil {
			return nil, err
		}
	}
	return c.updated(r, live, o)
}

// editManagedFields tests or removes a field of an entry, or removes the entry.
func editManagedFields(o *unstructured.Unstructured, op string, path []string, value any) error {
	entries, _, err := unstructured.NestedSlice(o.Object, "metadata", "managedFields")
	if err != nil {
		return err
	}
	at, err := strconv.Atoi(path[0])
	if err != nil || at >= len(entries) {
		return fmt.Errorf("%s: there is no entry %s", op, path[0])
	}
	entry := entries[at].(map[string]any)
	switch has, there, _ := unstructured.NestedFieldNoCopy(entry, path[1:]...); {
	case !there || op == "test" && has != value:
		return fmt.Errorf("%s: %v is %v", op, path, has)
	case op == "remove" && len(path) == 1:
		entries = slices.Delete(entries, at, at+1)
	case op == "remove":
		unstructured.RemoveNestedField(entry, path[1:]...)
	}
	return unstructured.SetNestedSlice(o.Object, entries, "metadata", "managedFields")
}

func (r *apiRequest) kind() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: r.resource.Group, Version: r.resource.Version, Kind: r.resource.Kind}
}

func (c *cluster) manage(r *apiRequest) *managedfields.FieldManager {
	return managedfieldstest.NewFakeFieldManager(c.types, r.kind())
}

// decoded decodes a body as the server does: it drops unknown and empty fields, normalizes
// quantities and sets defaults.
func (r *apiRequest) decoded(body []byte) (*unstructured.Unstructured, error) {
	typed, err := scheme.Scheme.New(r.kind())
	if err != nil {
		return nil, err
	}
	decode := json.NewDecoder(strings.NewReader(string(body)))
	if r.URL.Query().Get("fieldValidation") == "Strict" {
		decode.DisallowUnknownFields()
	}
	if err := decode.Decode(typed); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	setDefaults(typed)
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(typed)
	if err != nil {
		return nil, err
	}
	unstructured.RemoveNestedField(fields, "metadata", "creationTimestamp")
	o := &unstructured.Unstructured{Object: fields}
	o.SetGroupVersionKind(r.kind())
	return o, nil
}

// store stores an object if it differs from live.
func (c *cluster) store(r *apiRequest, live, o *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	if version := o.GetResourceVersion(); version != "" && version != live.GetResourceVersion() {
		return nil, apierrors.NewConflict(schema.GroupResource{}, r.name, fmt.Errorf("the object has been modified"))
	}
	if live.GetUID() != "" {
		if invalid := validate(live, o); invalid != nil {
			return nil, invalid
		}
		o.SetGeneration(live.GetGeneration())
		if !reflect.DeepEqual(o.Object["spec"], live.Object["spec"]) {
			o.SetGeneration(live.GetGeneration() + 1)
		}
	}
	o.SetResourceVersion(live.GetResourceVersion())
	if r.dryRun() || same(live, o) {
		return o, nil
	}
	c.version++
	o.SetResourceVersion(strconv.Itoa(c.version))
	c.objects[r.key()] = o
	return o, nil
}

// same compares without the times of managed fields.
func same(a, b *unstructured.Unstructured) bool {
	timeless := func(o *unstructured.Unstructured) *unstructured.Unstructured {
		o = o.DeepCopy()
		entries := o.GetManagedFields()
		for i := range entries {
			entries[i].Time = nil
		}
		o.SetManagedFields(entries)
		return o
	}
	return reflect.DeepEqual(timeless(a).Object, timeless(b).Object)
}

// validate rejects what the server rejects: another UID, changes of a pod's spec except for the
// image, a pod without containers, and fields that exclude each other.
func validate(live, o *unstructured.Unstructured) error {
	var faults field.ErrorList
	if live != nil && o.GetUID() != live.GetUID() {
		faults = append(faults, field.Invalid(field.NewPath("metadata", "uid"), o.GetUID(), "field is immutable"))
	}
	if o.GetKind() == "Pod" {
		containers, _, _ := unstructured.NestedSlice(o.Object, "spec", "containers")
		if len(containers) == 0 {
			faults = append(faults, field.Required(field.NewPath("spec", "containers"), ""))
		}
		if live != nil && !reflect.DeepEqual(withoutImages(o), withoutImages(live)) {
			faults = append(faults, field.Forbidden(field.NewPath("spec"), "pod updates may not change fields other than the image"))
		}
	}
	faults = append(faults, unionFaults(o)...)
	if len(faults) > 0 {
		return apierrors.NewInvalid(o.GroupVersionKind().GroupKind(), o.GetName(), faults)
	}
	return nil
}

// unionFaults has the paths and messages of the server.
func unionFaults(o *unstructured.Unstructured) (faults field.ErrorList) {
	spec := field.NewPath("spec")
	strategy, _, _ := unstructured.NestedMap(o.Object, "spec", "strategy")
	if strategy["type"] == "Recreate" && strategy["rollingUpdate"] != nil {
		faults = append(faults, field.Forbidden(spec.Child("strategy", "rollingUpdate"), "may not be specified when strategy `type` is 'Recreate'"))
	}
	volumes, _, _ := unstructured.NestedSlice(o.Object, "spec", "template", "spec", "volumes")
	for i, volume := range volumes {
		sources := slices.DeleteFunc(slices.Sorted(maps.Keys(volume.(map[string]any))), func(name string) bool { return name == "name" })
		for _, source := range sources[min(1, len(sources)):] {
			faults = append(faults, field.Forbidden(spec.Child("template", "spec", "volumes").Index(i).Child(source), "may not specify more than 1 volume type"))
		}
	}
	ports, _, _ := unstructured.NestedSlice(o.Object, "spec", "ports")
	names := map[any]bool{nil: true}
	for i, port := range ports {
		name := port.(map[string]any)["name"]
		if names[name] && name != nil {
			faults = append(faults, field.Duplicate(spec.Child("ports").Index(i).Child("name"), name))
		}
		names[name] = true
	}
	return faults
}

func withoutImages(pod *unstructured.Unstructured) any {
	spec := runtime.DeepCopyJSONValue(pod.Object["spec"]).(map[string]any)
	containers, _ := spec["containers"].([]any)
	for _, container := range containers {
		delete(container.(map[string]any), "image")
	}
	return spec
}
