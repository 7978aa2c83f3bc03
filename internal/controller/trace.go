package controller

import (
	"context"
	"strings"

	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
	"github.com/setpoint-dev/setpoint/internal/queue"
	"github.com/setpoint-dev/setpoint/internal/record"
	"github.com/setpoint-dev/setpoint/internal/trace"
)

// tracedVersion returns the resource version of an object, by which a trace finds who wrote it; zero without traces.
func (b *Base) tracedVersion(o *object.Object) uint64 {
	if b.Tools.Tracer == nil || o == nil {
		return 0
	}
	return o.Version()
}

// startTrace starts the span of the run. Without traces it returns the context. The trigger is that of a run that was
// not queued.
func (r *Run) startTrace(ctx context.Context, trigger string, attempt int) context.Context {
	b := r.base
	if b.Tools.Tracer == nil {
		return ctx
	}
	run := trace.Run{
		Controller: b.options.Name, APIVersion: b.options.Resource.APIVersion(), Object: tracedObject(r.Stored),
		UID:    strings.Clone(r.Stored.UID()), // It outlives the object, which it would keep.
		Causes: r.tracedCauses(), More: r.Item.Causes.More(), Attempt: attempt, Waited: b.waited(r.Item),
		Annotation: plan.Annotation(r.Stored, trace.Annotation), Secrets: r.Secrets,
	}
	if trigger != "" {
		run.Causes = []trace.Cause{{Text: trigger}}
	}
	ctx, r.trace = b.Tools.Tracer.StartRun(ctx, &run)
	r.Log = r.Log.With(r.trace.LogAttrs()...)
	return ctx
}

// tracedCauses returns the causes with the objects that they are about.
func (r *Run) tracedCauses() []trace.Cause {
	return lists.Map(r.Item.Causes.List(), func(cause queue.Cause) trace.Cause {
		about := tracedObject(r.Stored)
		if cause.Object != (queue.Key{}) {
			about = trace.Object{Kind: cause.Detail, Namespace: cause.Object.Namespace, Name: cause.Object.Name}
		}
		return trace.Cause{Text: cause.String(), Object: about, Version: cause.Version}
	})
}

func tracedObject(o *object.Object) trace.Object {
	return trace.Object{Kind: o.Kind(), Namespace: o.Namespace(), Name: o.Name()}
}

// endTrace ends the span of the run.
func (r *Run) endTrace(outcome record.Outcome) {
	if r.trace.On() {
		r.trace.EndRun(string(outcome), outcome == record.Failed, r.Record.Error())
	}
}
