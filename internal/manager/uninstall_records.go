package manager

import (
	"context"
	"fmt"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/controller/handler"
	"github.com/setpoint-dev/setpoint/internal/manager/finalizers"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// handBack leaves the objects of handlers to the controller that they have replaced, if they
// have replaced one.
func (r *uninstaller) handBack(ctx context.Context, p *handler.Program) error {
	if p.ReplacedAnnotation == "" {
		return nil
	}
	var written, outdated atomic.Int64
	var writes errgroup.Group
	writes.SetLimit(finalizers.Concurrency)
	for _, namespace := range p.NamespacesOf(p.Resource) {
		objects, err := r.writer().List(ctx, p.Resource, namespace, "")
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
		r.report("annotation %s set on %s of %s", p.ReplacedAnnotation, countObjects(int(n)), kind)
	}
	if n := outdated.Load(); n > 0 {
		r.report("record removed from %s of %s with changes that are not handled", countObjects(int(n)), kind)
	}
	return err
}

func (r *uninstaller) writeHandBack(ctx context.Context, resource object.Resource, o *object.Object, back handler.HandBack) error {
	if r.DryRun {
		return nil
	}
	_, err := r.writer().Patch(ctx, resource, o, back.Object)
	if err = ignoreNotFound(err); err != nil {
		return fmt.Errorf("leave %s to its former controller: %w", o.Ref(), err)
	}
	if back.Status == nil {
		return nil
	}
	_, err = r.writer().PatchStatus(ctx, resource, o, back.Status)
	if err = ignoreNotFound(err); err != nil {
		return fmt.Errorf("remove the record of %s: %w", o.Ref(), err)
	}
	return nil
}
