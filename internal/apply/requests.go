package apply

import (
	"cmp"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
)

// requests makes requests as a field manager; as dry runs if dryRun is set.
type requests struct {
	client  rest.Interface
	manager string
	dryRun  bool
}

// create returns a request that creates an object. If a manager applies it later, unknown
// fields are rejected at once, as the apply would.
func (r requests) create(resource object.Resource, o *object.Object, manager string) *rest.Request {
	request := r.write(r.client.Post(), manager).AbsPath(resource.Path(o.Namespace(), "")).Body(o.JSON())
	if manager != "" {
		request = request.Param("fieldValidation", metav1.FieldValidationStrict)
	}
	return request
}

func (r requests) update(resource object.Resource, o *object.Object, part string) *rest.Request {
	return onPart(r.write(r.client.Put(), ""), resource, o, part).Body(o.JSON())
}

// apply forces conflicts: other managers' changes are drift.
func (r requests) apply(a plan.Action, o *object.Object) *rest.Request {
	return r.write(r.client.Patch(types.ApplyPatchType), a.Manager).SetHeader("Content-Type", string(types.ApplyPatchType)).
		AbsPath(a.Resource.Path(o.Namespace(), o.Name())).Param("force", "true").Body(o.JSON())
}

// updateOrApply returns the request that writes an object in place of a recreation.
func (r requests) updateOrApply(a plan.Action, o *object.Object) *rest.Request {
	if a.DryRunVerb == plan.Apply {
		return r.apply(a, o)
	}
	return r.update(a.Resource, o, "")
}

// write sets the content type and the field manager; the writer's own if empty.
func (r requests) write(request *rest.Request, manager string) *rest.Request {
	request = request.SetHeader("Content-Type", "application/json").Param("fieldManager", r.managerOr(manager))
	if r.dryRun {
		return dryRun(request)
	}
	return request
}

func (r requests) managerOr(manager string) string { return cmp.Or(manager, r.manager) }

// asDryRun makes a request a dry run.
func (r requests) asDryRun(request *rest.Request) *rest.Request {
	if r.dryRun {
		return request
	}
	return dryRun(request)
}

func dryRun(request *rest.Request) *rest.Request { return request.Param("dryRun", metav1.DryRunAll) }

// onPart sets the path of an object or of its status. That is not validated, which takes time: the server prunes unknown
// fields.
func onPart(request *rest.Request, resource object.Resource, o *object.Object, part string) *rest.Request {
	request = request.AbsPath(resource.Path(o.Namespace(), o.Name()), part)
	if part == "" {
		return request
	}
	return request.Param("fieldValidation", metav1.FieldValidationIgnore)
}

func (r requests) deleteOptions(o *object.Object) *metav1.DeleteOptions {
	uid, background := types.UID(o.UID()), metav1.DeletePropagationBackground
	options := &metav1.DeleteOptions{
		TypeMeta:          metav1.TypeMeta{APIVersion: "v1", Kind: "DeleteOptions"},
		Preconditions:     &metav1.Preconditions{UID: &uid},
		PropagationPolicy: &background,
	}
	if r.dryRun {
		options.DryRun = []string{metav1.DryRunAll}
	}
	return options
}
