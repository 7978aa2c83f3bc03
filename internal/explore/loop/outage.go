package loop

import (
	"encoding/json"
	"errors"
	"iter"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/setpoint-dev/setpoint/internal/object"
)

// Outage is something around a controller that does not work: a kind that is not served any more, or a right that was
// revoked. It is stored as an object of a kind of its own, which only the API server in memory has. So it is part of the
// state of a search, edits begin and end it, and a process hears of it as of any other change.
type Outage struct {
	What OutageKind
	Of   object.Resource
}

// OutageKind says what does not work.
type OutageKind string

// The outages.
const (
	// Unserved means that the API server does not serve the kind. There are no such objects.
	Unserved OutageKind = "unserved"
	// Unlisted means that the process may not read the kind.
	Unlisted OutageKind = "unlisted"
	// Unwritten means that the process may not write the kind.
	Unwritten OutageKind = "unwritten"
)

// OutageResource is the kind of the objects.
var OutageResource = object.Resource{Group: "test.setpoint.dev", Version: "v1alpha1", Kind: "Outage", Plural: "outages", Custom: true}

// Ref names the object.
func (o Outage) Ref() object.Ref {
	return OutageResource.Ref("", string(o.What)+"."+o.Of.Plural+"."+o.Of.Version+strings.TrimSuffix("."+o.Of.Group, ".")).Identity()
}

// Object returns the object that begins the outage.
func (o Outage) Object() (*object.Object, error) {
	text, err := json.Marshal(map[string]any{
		"apiVersion": OutageResource.APIVersion(), "kind": OutageResource.Kind, "metadata": map[string]any{"name": o.Ref().Name}, "spec": o,
	})
	if err != nil {
		return nil, err
	}
	return object.Parse(text)
}

// OutageOf returns the outage of an object; false if it is of another kind, or nil.
func OutageOf(o *object.Object) (outage Outage, is bool) {
	if o == nil || o.GroupKind() != OutageResource.GroupKind() {
		return Outage{}, false
	}
	return outage, json.Unmarshal(o.Field("spec"), &outage) == nil
}

// String returns such as "configmaps.v1 is not served any more".
func (o Outage) String() string {
	return o.Of.String() + map[OutageKind]string{
		Unserved: " is not served any more", Unlisted: " may not be read any more", Unwritten: " may not be written any more",
	}[o.What]
}

// Refusal returns the status with which the API server refuses a request; 0 if it does not.
func (o Outage) Refusal(r *Request) int {
	switch reads := r.Method == http.MethodGet; {
	case !isFor(r, o.Of):
	case o.What == Unserved:
		return http.StatusNotFound
	case reads == (o.What == Unlisted):
		return http.StatusForbidden
	}
	return 0
}

// isFor reports whether a request is about objects of a kind.
func isFor(r *Request, resource object.Resource) bool {
	target, _, _ := strings.Cut(r.Target, "?")
	prefix := "/api/" + resource.Version + "/"
	if resource.Group != "" {
		prefix = "/apis/" + resource.APIVersion() + "/"
	}
	rest, is := strings.CutPrefix(target, prefix)
	path := strings.Split(rest, "/")
	if resource.Namespaced && len(path) > 2 && path[0] == object.Namespaces.Plural {
		path = path[2:]
	}
	return is && path[0] == resource.Plural
}

// watchError returns why a watch of the kind fails; nil if it does not.
func (o Outage) watchError() error {
	of := schema.GroupResource{Group: o.Of.Group, Resource: o.Of.Plural}
	switch o.What {
	case Unserved:
		return apierrors.NewNotFound(of, "")
	case Unlisted:
		return apierrors.NewForbidden(of, "", errors.New("the right to list them was revoked"))
	default:
		return nil
	}
}

// OutagesAmong are those that some of the objects stand for.
func OutagesAmong(objects iter.Seq[*object.Object]) []Outage {
	var all []Outage
	for o := range objects {
		if one, is := OutageOf(o); is {
			all = append(all, one)
		}
	}
	return all
}
