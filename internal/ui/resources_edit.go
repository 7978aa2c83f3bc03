package ui

import (
	"encoding/json"
	"errors"
	"maps"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/ui/diff"
	"github.com/setpoint-dev/setpoint/internal/ui/form"
)

// showEdit is the page on which an object is changed.
func showEdit(v *visit) error {
	ref, err := v.addressed()
	if err != nil {
		return err
	}
	stored, err := v.api.Get(v.context(), ref.Kind, ref.Namespace, ref.Name)
	if err != nil {
		return err
	}
	d := v.newDraft(ref.Kind, ref)
	d.Cancel = objectURL(ref)
	if err := d.load(stored); err != nil {
		return err
	}
	if v.query("as") == entersYAML {
		d.As = entersYAML
	}
	return v.renderDraft(d, 0)
}

// saveObject stores what was changed, or goes on with changing it. Only the difference
// to what was loaded is sent, so that what the page does not show stays.
func saveObject(v *visit) error {
	ref, err := v.addressed()
	if err != nil {
		return err
	}
	d := v.newDraft(ref.Kind, ref)
	d.Cancel = objectURL(ref)
	if err := d.receive(v); err != nil {
		return err
	}
	if d.base == nil {
		return invalid("The page did not send what it had loaded. Open it anew.")
	}
	if v.goesOn(d) {
		return v.renderDraft(d, 0)
	}
	object, err := d.object()
	if errors.Is(err, errEntered) {
		return v.renderDraft(d, http.StatusUnprocessableEntity)
	}
	return v.store(d, form.Patch(d.base, object))
}

func (v *visit) store(d *draft, patch map[string]any) error {
	if len(patch) == 0 {
		v.flash("Nothing was changed.")
		return v.redirect(d.Cancel)
	}
	metadata, _ := patch["metadata"].(map[string]any)
	versioned, meta := maps.Clone(patch), map[string]any{"resourceVersion": d.Version}
	maps.Copy(meta, metadata)
	versioned["metadata"] = meta
	body, err := json.Marshal(versioned)
	if err != nil {
		return err
	}
	_, err = v.api.Patch(v.context(), d.Ref, types.MergePatchType, body, false)
	switch {
	case apierrors.IsConflict(err):
		return v.meet(d, patch)
	case err != nil:
		return v.refuse(d, err)
	}
	v.flash(d.Kind.Kind + " " + d.Ref.Name + " is saved.")
	return v.redirect(d.Cancel)
}

// meet lays what the visitor changed over what others stored meanwhile, and says what
// that was: to save it then is for the visitor to decide.
func (v *visit) meet(d *draft, patch map[string]any) error {
	stored, err := v.api.Get(v.context(), d.Ref.Kind, d.Ref.Namespace, d.Ref.Name)
	if err != nil {
		return v.refuse(d, err)
	}
	loaded := d.base
	if err := d.load(stored); err != nil {
		return err
	}
	d.Changes = changesOf(loaded, d.base)
	d.lay(form.Apply(d.base, patch))
	d.Root = nil
	d.Problem = "Somebody changed this " + d.Kind.Kind + " while you did."
	d.Hint = "Your changes are laid over theirs below. Look at it, and save again."
	return v.renderDraft(d, http.StatusConflict)
}

func changesOf(before, after map[string]any) []inspect.Change {
	changes, err := diff.Objects(json.RawMessage(compact(before)), json.RawMessage(compact(after)))
	if err != nil {
		return nil
	}
	return changes
}
