package environment

import (
	"hash/fnv"
	"net/http"
	"slices"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/setpoint-dev/setpoint/internal/explore/apiserver"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// stepper collects the next steps of one object.
type stepper struct {
	server   *apiserver.Server
	state    *apiserver.State
	object   *object.Object
	manager  string
	resource object.Resource
	spec     map[string]any
	status   map[string]any
	steps    []apiserver.Change
}

// step adds a step of one or more writes, unless it is rejected or changes nothing.
func (s *stepper) step(what string, writes ...apiserver.Request) {
	s.add(s.manager, what, false, writes)
}

func (s *stepper) failure(what string, writes ...apiserver.Request) {
	s.add(s.manager, what, true, writes)
}

func (s *stepper) add(manager, what string, failure bool, writes []apiserver.Request) {
	change := apiserver.Change{State: s.state, Name: what, Object: s.object.Ref().Identity(), Failure: failure}
	s.steps = s.server.AppendChange(s.steps, change, manager, writes...)
}

// setStatus merges a patch into the status.
func (s *stepper) setStatus(patch map[string]any) apiserver.Request {
	subresource := ""
	if s.resource.Status {
		subresource = "status"
	}
	return apiserver.PatchOf(s.resource, s.object, subresource, map[string]any{"status": patch})
}

// merge merges a patch into the object.
func (s *stepper) merge(patch map[string]any) apiserver.Request {
	return apiserver.PatchOf(s.resource, s.object, "", patch)
}

func (s *stepper) post(subresource, body string) apiserver.Request {
	return apiserver.Request{
		Method: http.MethodPost, Resource: s.resource, Namespace: s.object.Namespace(), Name: s.object.Name(),
		Subresource: subresource, Body: []byte(body),
	}
}

// remove deletes the object at once.
func (s *stepper) remove() apiserver.Request {
	uid, now := types.UID(s.object.UID()), int64(0)
	return apiserver.DeletionOf(s.resource, s.object, metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &uid}, GracePeriodSeconds: &now,
	})
}

// number returns a number of the spec or the status; absent is the default.
func number(fields map[string]any, absent int64, path ...string) int64 {
	if n, is := object.Number(object.FieldAt(fields, path...)); is {
		return int64(n)
	}
	return absent
}

// text returns a text of the spec or the status.
func text(fields map[string]any, path ...string) string {
	value, _ := object.FieldAt(fields, path...).(string)
	return value
}

// observed reports whether the status is about the present spec.
func (s *stepper) observed() bool {
	return number(s.status, 0, "observedGeneration") == s.object.Generation()
}

// revision returns a short hash of the pod template, as in the names of ReplicaSets and revisions.
func (s *stepper) revision() string {
	sum := fnv.New32a()
	sum.Write(s.object.Field("spec", "template"))
	return s.object.Name() + "-" + strconv.FormatUint(uint64(sum.Sum32()), 36)
}

type condition struct {
	name    string
	true    bool
	reason  string
	message string
}

func (s *stepper) conditions(set ...condition) []any {
	have, _ := s.status["conditions"].([]any)
	after := slices.Clone(have)
	for _, c := range set {
		i := slices.IndexFunc(after, func(each any) bool { return nameOf(each) == c.name })
		if i < 0 {
			i, after = len(after), append(after, nil)
		}
		after[i] = c.fields()
	}
	return after
}

// fields returns the condition as JSON. Time stands still.
func (c condition) fields() map[string]any {
	fields := map[string]any{"type": c.name, "status": "False", "lastTransitionTime": apiserver.Epoch.Format(time.RFC3339)}
	if c.true {
		fields["status"] = "True"
	}
	if c.reason != "" {
		fields["reason"] = c.reason
	}
	if c.message != "" {
		fields["message"] = c.message
	}
	return fields
}

func nameOf(each any) string {
	fields, _ := each.(map[string]any)
	return text(fields, "type")
}

// find returns a condition of the status; nil if there is none.
func (s *stepper) find(name string) map[string]any {
	list, _ := s.status["conditions"].([]any)
	for _, each := range list {
		if nameOf(each) == name {
			fields, _ := each.(map[string]any)
			return fields
		}
	}
	return nil
}

// isTrue reports whether a condition is true.
func (s *stepper) isTrue(name string) bool { return text(s.find(name), "status") == "True" }
