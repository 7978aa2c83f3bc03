// Package uninstall removes what a stopped process left in a cluster: webhook configurations, finalizers, generated
// Secrets, Leases and, if that is wanted, CRDs. Other objects stay.
package uninstall

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	setpoint "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/internal/admission/certs"
	"github.com/setpoint-dev/setpoint/internal/admission/register"
	"github.com/setpoint-dev/setpoint/internal/apply"
	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/controller/handler"
	"github.com/setpoint-dev/setpoint/internal/inspect/locate"
	"github.com/setpoint-dev/setpoint/internal/inspect/locate/token"
	"github.com/setpoint-dev/setpoint/internal/manager/controllers"
	"github.com/setpoint-dev/setpoint/internal/manager/crds"
	"github.com/setpoint-dev/setpoint/internal/manager/finalizers"
	"github.com/setpoint-dev/setpoint/internal/manager/leader"
	"github.com/setpoint-dev/setpoint/internal/manager/serving"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
	"github.com/setpoint-dev/setpoint/internal/request"
)

// Options say what to remove.
type Options struct {
	// DryRun reports what would be removed.
	DryRun bool
	// CRDs deletes Setpoint's CRDs too, and with them all controller objects.
	CRDs bool
	// Report is called with a line for each removed thing; nil for none.
	Report func(line string)
}

// Remover removes what a process with the same dependencies and configuration has left.
type Remover struct {
	Options
	*controllers.Dependencies

	// Config is the client configuration; Writer uses it as Client does.
	Config *rest.Config
	Writer *apply.Writer
	// Program means that a Go program or an operator is uninstalled, which has no controller objects.
	Program bool
	// DevRun is the run of `setpoint dev --context` whose controller objects the Selector selects; "" for none.
	DevRun string
	// Namespaces are those that Setpoint was limited to.
	Namespaces     []string
	Reach          serving.Reach
	LeaderElection leader.Election

	// declared is the number of controller objects by kind.
	declared map[string]int
}

// Run removes everything. The process must not run any more: it would create all of it again.
func (r *Remover) Run(ctx context.Context) error {
	if err := r.checkStopped(ctx); err != nil {
		return err
	}
	// The webhooks go first: without their server they refuse the other writes.
	err := errors.Join(r.deleteWebhooks(ctx), r.releaseAll(ctx), r.deleteSecrets(ctx), r.deleteLeases(ctx))
	if err != nil || !r.Options.CRDs {
		return err
	}
	return r.deleteCRDs(ctx)
}

// Release removes only webhook configurations and finalizers.
func (r *Remover) Release(ctx context.Context) error {
	// A user without the right to list webhook configurations could not have created any.
	if err := r.deleteWebhooks(ctx); err != nil && !apierrors.IsForbidden(err) {
		return err
	}
	return r.releaseAll(ctx)
}

// checkStopped returns an error while the Manager runs. One that handles controller objects
// in all namespaces may run in any.
func (r *Remover) checkStopped(ctx context.Context) error {
	for _, lease := range r.leases() {
		if !r.Program && len(r.Namespaces) == 0 {
			lease.Namespace = ""
		}
		err := leader.CheckStopped(ctx, r.Config, lease, func(holder, held string, most time.Duration) {
			r.Log.Info("waiting to see whether a process still runs", "process", holder, "lease", held, "most", most.String())
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// leases returns the Leases of processes with and without leader election.
func (r *Remover) leases() []types.NamespacedName {
	e := &r.LeaderElection
	return []types.NamespacedName{
		{Namespace: e.Namespace, Name: e.Name}, {Namespace: e.Namespace, Name: e.ProcessLeaseName(r.Namespaces)},
	}
}

// report reports what was removed.
func (r *Remover) report(format string, args ...any) {
	line := fmt.Sprintf(format, args...)
	if r.DryRun {
		line += " (dry run)"
	}
	if r.Report != nil {
		r.Report(line)
	}
}

// delete deletes an object, unless it was replaced, and reports it as kubectl does.
func (r *Remover) delete(ctx context.Context, resource object.Resource, o *object.Object, note string) error {
	name := crdStyleName(resource) + "/" + o.Name()
	if !r.DryRun {
		uid := types.UID(o.UID())
		err := request.Delete(ctx, r.Client, resource, o, metav1.Preconditions{UID: &uid})
		if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("delete %s: %w", name, err)
		}
	}
	if o.Namespace() != "" {
		note = " from " + o.Namespace() + " namespace" + note
	}
	r.report("%s deleted%s", name, note)
	return nil
}

// crdStyleName returns a kind as kubectl prints it, such as "lease.coordination.k8s.io".
func crdStyleName(resource object.Resource) string {
	return strings.TrimSuffix(strings.ToLower(resource.Kind)+"."+resource.Group, ".")
}

// deleteWebhooks deletes the webhook configurations of this Setpoint. It reports those of one
// that ran in another namespace: the user may have named the wrong one.
func (r *Remover) deleteWebhooks(ctx context.Context) error {
	own := r.Reach.RegistrationGroup()
	selector := register.AnyGroup
	if r.Program {
		selector = register.GroupSelector(own)
	}
	for _, resource := range register.Resources() {
		stored, err := r.Writer.List(ctx, resource, "", selector)
		if err != nil {
			return fmt.Errorf("list %s: %w", resource.Plural, err)
		}
		for _, o := range stored {
			group := register.GroupOf(o)
			namespace, ofSetpoint := strings.CutSuffix(group, "."+r.LeaderElection.Name)
			switch {
			case group == own || r.Program:
				err = r.delete(ctx, resource, o, "")
			case ofSetpoint:
				r.report("%s/%s kept: its Setpoint ran in another namespace; use --namespace=%s",
					crdStyleName(resource), o.Name(), namespace)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// deleteSecrets deletes the Secrets that Setpoint generated.
func (r *Remover) deleteSecrets(ctx context.Context) error {
	var err error
	if secret := r.Reach.CertificateSecret(); secret != (types.NamespacedName{}) && !r.Reach.ProvidesCertificates() {
		var stored *object.Object
		if stored, err = certs.StoredSecret(ctx, r.Client, secret); err == nil {
			err = r.delete(ctx, object.Secrets, stored, "")
		}
	}
	return errors.Join(ignoreNotFound(err), r.deleteInspectSecret(ctx))
}

// deleteInspectSecret deletes the token of the inspect endpoint, unless a program shares it.
func (r *Remover) deleteInspectSecret(ctx context.Context) error {
	stored, err := r.get(ctx, object.Secrets, r.Namespace, token.SecretName)
	if err != nil {
		return ignoreNotFound(err)
	}
	leases, err := r.Writer.List(ctx, object.Leases, r.Namespace, "")
	if err != nil {
		return fmt.Errorf("list leases: %w", err)
	}
	for _, lease := range leases {
		if lease.Name() != r.LeaderElection.Name && plan.Annotation(lease, locate.LeaseAnnotation) != "" {
			r.report("secret/%s kept: the program with the Lease %s uses it", token.SecretName, lease.Name())
			return nil
		}
	}
	return r.delete(ctx, object.Secrets, stored, "")
}

// get reads an object.
func (r *Remover) get(ctx context.Context, resource object.Resource, namespace, name string) (*object.Object, error) {
	return request.Object(request.Do(ctx, r.Client.Get().AbsPath(resource.Path(namespace, name))))
}

func (r *Remover) deleteLeases(ctx context.Context) error {
	for _, lease := range r.leases() {
		stored, err := r.get(ctx, object.Leases, lease.Namespace, lease.Name)
		if err == nil {
			err = r.delete(ctx, object.Leases, stored, "")
		}
		if ignoreNotFound(err) != nil {
			return err
		}
	}
	return nil
}

// deleteCRDs deletes the CRDs of all kinds of controllers. Those that a Metacontroller uses stay.
func (r *Remover) deleteCRDs(ctx context.Context) error {
	others, err := r.Metacontrollers.Found(ctx)
	if err != nil {
		return err
	}
	for _, kind := range compile.Kinds() {
		name := crds.NameOf(kind.Resource)
		stored, err := r.get(ctx, crds.Resource, "", name)
		switch {
		case err == nil && kind.Metacontroller() && len(others) > 0:
			r.report("%s/%s kept: a Metacontroller runs in this cluster (%s)", crdStyleName(crds.Resource), name, others[0])
		case err == nil:
			err = r.delete(ctx, crds.Resource, stored, ", with "+finalizers.CountObjects(r.declared[kind.Name]))
		}
		if ignoreNotFound(err) != nil {
			return err
		}
	}
	return nil
}

func ignoreNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// releaseAll removes the finalizers of all controllers. One that fails does not stop the others.
func (r *Remover) releaseAll(ctx context.Context) error {
	if r.Program {
		return r.releaseProgram(ctx)
	}
	var failures []error
	r.declared = map[string]int{}
	for _, kind := range compile.Kinds() {
		stored, err := r.Writer.List(ctx, kind.Resource, "", r.Selector)
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

// releaseDeclared removes the finalizers that a controller object has on objects, then Setpoint's on itself.
func (r *Remover) releaseDeclared(ctx context.Context, kind compile.Kind, o *object.Object) error {
	foot := kind.Footprint(o)
	if !foot.Finalizes && !finalizers.ReleasesParents(o) {
		return nil
	}
	if kind.Metacontroller() {
		_, err := r.Metacontrollers.Check(ctx, o)
		if _, refused := errors.AsType[*compile.Refusal](err); refused {
			r.report("%s/%s kept: %s", kind.Name, o.Name(), "a Metacontroller runs it")
			return nil
		}
		if err != nil {
			return err
		}
	}
	for _, resource := range foot.FinalizerRemovals(compile.StoredStatus(o).Finalizes, true) {
		if err := r.release(ctx, resource, foot.Finalizer); err != nil {
			return err
		}
	}
	return r.releaseItself(ctx, kind, o)
}

// releaseItself removes Setpoint's finalizer from a controller object, and from its status
// the kinds whose objects are released.
func (r *Remover) releaseItself(ctx context.Context, kind compile.Kind, o *object.Object) error {
	if !finalizers.ReleasesParents(o) {
		return nil
	}
	// No other Setpoint has run the controllers of a dev run.
	if len(r.Namespaces) > 0 && r.DevRun == "" {
		r.report("finalizer %s kept on %s/%s: other namespaces may have objects", setpoint.FinalizerReleaseParents, kind.Name, o.Name())
		return nil
	}
	if !r.DryRun {
		path := kind.Resource.Path("", o.Name())
		if err := r.clearFinalizes(ctx, path, o); err != nil {
			return err
		}
		removal := finalizers.Removal{Cluster: r.Finalizers, Finalizer: setpoint.FinalizerReleaseParents}
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
func (r *Remover) clearFinalizes(ctx context.Context, path string, o *object.Object) error {
	if len(compile.StoredStatus(o).Finalizes) == 0 {
		return nil
	}
	body, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": o.UID()}, "status": map[string]any{"finalizes": nil},
	})
	if err != nil {
		return err
	}
	_, err = request.Do(ctx, r.Client.Patch(types.MergePatchType).AbsPath(path+"/status").Param("fieldManager",
		r.Finalizers.FieldManager).Body(body))
	return ignoreNotFound(err)
}

// releaseProgram removes the finalizers of a Go program or an operator, and the records of one
// that has replaced another controller.
func (r *Remover) releaseProgram(ctx context.Context) error {
	var failures []error
	for _, own := range r.GoControllers {
		compiled, err := own.Compile(ctx, r.Environment())
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
		compiled.Close()
	}
	return errors.Join(failures...)
}

// release removes a finalizer from all objects of a kind, with the rights of the user.
func (r *Remover) release(ctx context.Context, name compile.ResourceName, finalizer string) error {
	removal := finalizers.Removal{Cluster: r.Finalizers, Finalizer: finalizer, DryRun: r.DryRun}
	err := removal.RemoveFrom(ctx, name)
	note := ""
	if n := removal.Deleting.Load(); n > 0 {
		note = fmt.Sprintf("; %d in deletion, without a call of the finalize hook", n)
	}
	if n := removal.Removed.Load(); n > 0 {
		r.report("finalizer %s removed from %s of %s%s", finalizer, finalizers.CountObjects(int(n)), name, note)
	}
	if err != nil {
		return fmt.Errorf("remove the finalizer %s from %s: %w", finalizer, name, err)
	}
	return nil
}

// handBack leaves the objects of handlers to the controller that they have replaced, if they have replaced one.
func (r *Remover) handBack(ctx context.Context, p *handler.Program) error {
	if p.ReplacedAnnotation == "" {
		return nil
	}
	var written, outdated atomic.Int64
	var writes errgroup.Group
	writes.SetLimit(finalizers.Concurrency)
	for _, namespace := range p.NamespacesOf(p.Resource) {
		objects, err := r.Writer.List(ctx, p.Resource, namespace, "")
		if err != nil {
			return fmt.Errorf("list %s: %w", p.Resource, err)
		}
		for _, o := range objects {
			writes.Go(func() error {
				back, err := p.HandBack(o)
				switch {
				case err != nil || back.Object == nil:
					return err
				case back.Outdated:
					outdated.Add(1)
				default:
					written.Add(1)
				}
				return r.writeHandBack(ctx, p.Resource, o, back)
			})
		}
	}
	kind := compile.ResourceName{APIVersion: p.Resource.APIVersion(), Plural: p.Resource.Plural}
	err := writes.Wait()
	if n := written.Load(); n > 0 {
		r.report("annotation %s set on %s of %s", p.ReplacedAnnotation, finalizers.CountObjects(int(n)), kind)
	}
	if n := outdated.Load(); n > 0 {
		r.report("record removed from %s of %s with changes that are not handled", finalizers.CountObjects(int(n)), kind)
	}
	return err
}

func (r *Remover) writeHandBack(ctx context.Context, resource object.Resource, o *object.Object, back handler.HandBack) error {
	if r.DryRun {
		return nil
	}
	_, err := r.Writer.Patch(ctx, resource, o, back.Object, "")
	if err = ignoreNotFound(err); err != nil {
		return fmt.Errorf("leave %s to its former controller: %w", o.Ref(), err)
	}
	if back.Status == nil {
		return nil
	}
	_, err = r.Writer.Patch(ctx, resource, o, back.Status, apply.StatusPart)
	if err = ignoreNotFound(err); err != nil {
		return fmt.Errorf("remove the record of %s: %w", o.Ref(), err)
	}
	return nil
}
