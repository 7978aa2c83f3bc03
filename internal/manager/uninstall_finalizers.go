package manager

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	setpoint "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/manager/finalizers"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/request"
)

// releaseAll removes the finalizers of all controllers. One that fails does not stop the
// others.
func (r *uninstaller) releaseAll(ctx context.Context) error {
	if r.isProgram() {
		return r.releaseProgram(ctx)
	}
	var failures []error
	for _, kind := range compile.Kinds() {
		stored, err := r.writer().List(ctx, kind.Resource, "", r.options.controllerSelector())
		if apierrors.IsNotFound(err) {
			continue // There is no CRD.
		}
		if err != nil {
			failures = append(failures, fmt.Errorf("list %s: %w", kind.Resource, err))
		}
		r.declared[kind.Name] = len(stored)
		for _, o := range stored {
			if err := r.releaseDeclared(ctx, kind, o); err != nil {
				failures = append(failures, fmt.Errorf("release %s/%s: %w", kind.Name, o.Name(), err))
			}
		}
	}
	return errors.Join(failures...)
}

// releaseDeclared removes the finalizers that a controller object has on objects, then
// Setpoint's on itself.
func (r *uninstaller) releaseDeclared(ctx context.Context, kind compile.Kind, o *object.Object) error {
	foot := kind.Footprint(o)
	if !foot.Finalizes && !hasReleaseFinalizer(o) {
		return nil
	}
	if kind.Metacontroller() {
		_, err := r.metacontrollers.Check(ctx, o)
		if _, refused := errors.AsType[*compile.Refusal](err); refused {
			r.report("%s/%s kept: %s", kind.Name, o.Name(), "a Metacontroller runs it")
			return nil
		}
		if err != nil {
			return err
		}
	}
	for _, resource := range foot.FinalizerRemovals(storedStatus(o).Finalizes, true) {
		if err := r.release(ctx, resource, foot.Finalizer); err != nil {
			return err
		}
	}
	return r.releaseItself(ctx, kind, o)
}

// releaseItself removes Setpoint's finalizer from a controller object, and from its status
// the kinds whose objects are released.
func (r *uninstaller) releaseItself(ctx context.Context, kind compile.Kind, o *object.Object) error {
	if !hasReleaseFinalizer(o) {
		return nil
	}
	// No other Setpoint has run the controllers of a dev run.
	if len(r.options.Namespaces) > 0 && r.options.DevRun == "" {
		r.report("finalizer %s kept on %s/%s: other namespaces may have objects", setpoint.FinalizerReleaseParents, kind.Name, o.Name())
		return nil
	}
	if !r.DryRun {
		path := kind.Resource.Path("", o.Name())
		if err := r.clearFinalizes(ctx, path, o); err != nil {
			return err
		}
		removal := finalizers.Removal{Cluster: r.finalizers(), Finalizer: setpoint.FinalizerReleaseParents}
		declared := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: o.Name(), UID: types.UID(o.UID()),
			Finalizers: o.Finalizers()}}
		if err := removal.RemoveFromObject(ctx, kind.Resource, declared); err != nil {
			return err
		}
	}
	r.report("finalizer %s removed from %s/%s", setpoint.FinalizerReleaseParents, kind.Name, o.Name())
	return nil
}

// clearFinalizes removes the kinds from the status of a controller object.
func (r *uninstaller) clearFinalizes(ctx context.Context, path string, o *object.Object) error {
	if len(storedStatus(o).Finalizes) == 0 {
		return nil
	}
	body, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": o.UID()}, "status": map[string]any{"finalizes": nil},
	})
	if err != nil {
		return err
	}
	_, err = request.Do(ctx, r.client.Patch(types.MergePatchType).AbsPath(path+"/status").Param("fieldManager", programName).Body(body))
	return ignoreNotFound(err)
}

// releaseProgram removes the finalizers of a Go program or an operator, and the records of one
// that has replaced another controller.
func (r *uninstaller) releaseProgram(ctx context.Context) error {
	var failures []error
	for _, own := range r.options.GoControllers {
		compiled, err := own.Compile(ctx, r.compileEnvironment())
		switch {
		case errors.Is(err, compile.ErrNotServed):
			continue // There are no objects.
		case err != nil:
			failures = append(failures, fmt.Errorf("release objects of %s: %w", own.Name, err))
			continue
		}
		for resource, finalizer := range compiled.Finalizers() {
			if err := r.release(ctx, resource, finalizer); err != nil {
				failures = append(failures, err)
			}
		}
		for i := range compiled.Handlers {
			failures = append(failures, r.handBack(ctx, &compiled.Handlers[i]))
		}
		if compiled.Release != nil {
			compiled.Release()
		}
	}
	return errors.Join(failures...)
}

// release removes a finalizer from all objects of a kind, with the rights of the user.
func (r *uninstaller) release(ctx context.Context, name compile.ResourceName, finalizer string) error {
	removal := finalizers.Removal{Cluster: r.finalizers(), Finalizer: finalizer, DryRun: r.DryRun}
	err := removal.RemoveFrom(ctx, name)
	note := ""
	if n := removal.Deleting.Load(); n > 0 {
		note = fmt.Sprintf("; %d in deletion, without a call of the finalize hook", n)
	}
	if n := removal.Removed.Load(); n > 0 {
		r.report("finalizer %s removed from %s of %s%s", finalizer, countObjects(int(n)), name, note)
	}
	if err != nil {
		return fmt.Errorf("remove the finalizer %s from %s: %w", finalizer, name, err)
	}
	return nil
}

// countObjects returns such as "2 objects".
func countObjects(n int) string {
	if n == 1 {
		return "1 object"
	}
	return fmt.Sprintf("%d objects", n)
}
