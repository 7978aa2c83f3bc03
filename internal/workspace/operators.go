package workspace

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/dev/manifest"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// openOperators starts the operators in Python of the files, and adds the controllers that they declare.
func (w *Workspace) openOperators(ctx context.Context) error {
	for _, p := range w.programs.operators {
		if err := w.openOperator(ctx, p); err != nil {
			return fmt.Errorf("%s: %s: %w", p.file, p.Describe(), err)
		}
	}
	return nil
}

func (w *Workspace) openOperator(ctx context.Context, p *program) error {
	o, err := w.options.Operator(ctx, p.Process, w.Kinds.All())
	if err != nil {
		return err
	}
	w.operators = append(w.operators, o)
	all, err := o.Compile(ctx, w.env)
	for _, compiled := range all {
		declared, err := declaredBy(compiled)
		if err != nil {
			return err
		}
		kind, _ := compile.KindOf(declared)
		w.Controllers = append(w.Controllers, &Controller{Compiled: compiled, Kind: kind, Object: declared,
			Document: manifest.Document{File: p.file}})
	}
	return err
}

// declaredBy returns the controller that an operator has declared.
func declaredBy(c *compile.Compiled) (*object.Object, error) {
	var text json.RawMessage
	switch {
	case len(c.Handlers) > 0:
		text = c.Handlers[0].Object
	case c.Admission != nil:
		text = c.Admission.Object
	}
	return object.Parse(text)
}
