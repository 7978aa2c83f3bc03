package workspace

import (
	"github.com/setpoint-dev/setpoint/internal/cache"
	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/configmap"
	"github.com/setpoint-dev/setpoint/internal/plan"
)

// namespace is where `setpoint dev` stores namespaced objects of cluster-scoped parents.
const namespace = "default"

// prepare sets what the controllers are compiled with: the defaults of `setpoint run`, and the rights of this
// process for all of them.
func (w *Workspace) prepare() error {
	client, err := (&fileServer{w.Objects}).client()
	if err != nil {
		return err
	}
	if w.programs, err = newPrograms(w.options, w.files.projects); err != nil {
		return err
	}
	store := cache.New(client, cache.Options{})
	w.env = compile.Environment{
		Resolve: w.Kinds.Resolve, ResolveKind: w.Kinds.ResolveKind, StatusOf: w.Kinds.StatusOf,
		Inline: w.options.Inline, Exec: w.options.Exec, Expressions: w.options.Expressions,
		Dial: w.programs.dial, Routed: w.programs.routed, UserAgent: "setpoint-test",
		Namespace: namespace, OwnRights: true, ApplyStrategy: plan.Merge, FieldManager: "metacontroller",
		Store: store, Sources: configmap.NewDryRunReader(store, w.Objects...),
	}
	return nil
}
