package setpointtest

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/setpoint-dev/setpoint"
	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/dev/manifest"
	"github.com/setpoint-dev/setpoint/internal/explore"
	"github.com/setpoint-dev/setpoint/internal/explore/document"
	"github.com/setpoint-dev/setpoint/internal/explore/loop"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/sdk"
	"github.com/setpoint-dev/setpoint/internal/workspace"
)

// convert returns the exploration as package explore has it: what a file can say goes through the document of a file.
func (e *Exploration) convert(ctx context.Context, name string, app *setpoint.App) (explore.Options, error) {
	w, err := e.workspace(ctx, app)
	if err != nil {
		return explore.Options{}, err
	}
	fields, err := e.document(name, app)
	if err != nil {
		return explore.Options{}, err
	}
	x, err := document.New(manifest.Document{Object: &unstructured.Unstructured{Object: fields}}, w)
	if err != nil {
		return explore.Options{}, err
	}
	if e.External != nil {
		fake, err := newFake(e.External)
		if err != nil {
			return explore.Options{}, fmt.Errorf("External: %w", err)
		}
		if x.External, err = loop.NewExternal(fake); err != nil {
			return explore.Options{}, fmt.Errorf("External: %w", err)
		}
	}
	options, err := x.Options(ctx, w, e.Bounds.bounds())
	if err != nil {
		return options, err
	}
	external, err := e.externalEdits()
	options.Edits = append(options.Edits, external...)
	for i := range options.Invariants {
		e.Invariants[i].addFunction(&options.Invariants[i], app, x.External)
	}
	return options, err
}

// workspace returns the app and its CRDs as files would have them.
func (e *Exploration) workspace(ctx context.Context, app *setpoint.App) (*workspace.Workspace, error) {
	w := &workspace.Workspace{}
	for i, text := range append(sdk.Of(app).CRDTexts(), e.CRDs...) {
		documents, err := manifest.Parse(fmt.Sprintf("CRDs[%d]", i), text)
		if err != nil {
			return nil, err
		}
		objects, err := manifest.Objects(documents)
		if err != nil {
			return nil, err
		}
		w.CRDs = append(w.CRDs, objects...)
	}
	var err error
	if w.Kinds, err = workspace.NewKinds(w.CRDs); err != nil {
		return nil, err
	}
	compiled, err := sdk.Of(app).CompileAll(ctx, compile.Environment{
		Resolve: w.Kinds.Resolve, ResolveKind: w.Kinds.ResolveKind, StatusOf: w.Kinds.StatusOf,
		Settings: compile.Settings{Namespace: "default"},
	})
	if err != nil {
		return nil, err
	}
	for _, c := range compiled {
		// Stories name controllers by their objects.
		named, err := object.Parse(fmt.Appendf(nil, `{"apiVersion":"setpoint.dev/v1alpha1","kind":"App","metadata":{"name":%q}}`,
			nameOf(c)))
		if err != nil {
			return nil, err
		}
		w.Controllers = append(w.Controllers, &workspace.Controller{Compiled: c, Object: named})
	}
	return w, nil
}

// nameOf returns the name of a controller, which its programs have.
func nameOf(c *compile.Compiled) string {
	switch {
	case len(c.Programs) > 0:
		return c.Programs[0].Name
	case len(c.Handlers) > 0:
		return c.Handlers[0].Name
	}
	return "reviews"
}

// document returns the fields of an Exploration in a file.
func (e *Exploration) document(name string, app *setpoint.App) (map[string]any, error) {
	all := map[string]any{
		"apiVersion": workspace.TestVersion, "kind": workspace.ExplorationKind, "metadata": map[string]any{"name": name},
		"unchecked": e.Unchecked,
	}
	var objects, edits, invariants []any
	for i, o := range e.Objects {
		fields, err := fieldsOf(app, o)
		if err != nil {
			return nil, fmt.Errorf("Objects[%d]: %w", i, err)
		}
		objects = append(objects, fields)
	}
	for i := range e.Edits {
		if e.Edits[i].isExternal(e) {
			continue
		}
		fields, err := e.Edits[i].document(app)
		if err != nil {
			return nil, fmt.Errorf("Edits[%d]%w", i, err)
		}
		edits = append(edits, fields)
	}
	for i := range e.Invariants {
		fields, err := e.Invariants[i].document()
		if err != nil {
			return nil, fmt.Errorf("Invariants[%d]%w", i, err)
		}
		invariants = append(invariants, fields)
	}
	all["objects"], all["edits"], all["invariants"] = objects, edits, invariants
	return all, nil
}
