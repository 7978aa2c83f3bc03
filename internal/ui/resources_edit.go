package ui

import (
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"reflect"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/setpoint-dev/setpoint/internal/diff"
	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/ui/form"
)

// showEdit is the page on which an object is changed.
func showEdit(v *visit) error {
	ref, err := v.addressed()
	if err != nil {
		return err
	}
	if err := v.needs("patch", ref.Kind, ref.Namespace, ref.Name); err != nil {
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
	if err := v.needs("patch", ref.Kind, ref.Namespace, ref.Name); err != nil {
		return err
	}
	done, err := v.work(v.context())
	if err != nil {
		return err
	}
	defer done()
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

// maxRaces is how often an object may be stored by somebody else before ours is, with
// nothing changed that a visitor could have: what controllers note in a status.
const maxRaces = 5

func (v *visit) store(d *draft, patch map[string]any) error {
	if len(patch) == 0 {
		v.flash("Nothing was changed.")
		return v.redirect(d.Cancel)
	}
	for race := 1; ; race++ {
		err := v.change(d, patch)
		switch {
		case apierrors.IsConflict(err):
			same, err := v.meet(d, patch)
			if err != nil {
				return v.refuse(d, err)
			}
			if !same || race == maxRaces {
				return v.renderDraft(d, http.StatusConflict)
			}
		case err != nil:
			return v.refuse(d, err)
		default:
			v.flash(d.Kind.Kind + " " + d.Ref.Name + " is saved.")
			return v.redirect(d.Cancel)
		}
	}
}

// change stores a difference to what was loaded, unless that is out of date.
func (v *visit) change(d *draft, patch map[string]any) error {
	metadata, _ := patch["metadata"].(map[string]any)
	versioned, meta := maps.Clone(patch), map[string]any{"resourceVersion": d.Version}
	maps.Copy(meta, metadata)
	versioned["metadata"] = meta
	body, err := json.Marshal(versioned)
	if err != nil {
		return err
	}
	_, err = v.api.Patch(v.context(), d.Ref, types.MergePatchType, body)
	return err
}

// meet lays what the visitor changed over what others stored meanwhile, and says what
// that was: to save it then is for the visitor to decide. It is the same if nothing
// changed of what people enter, whether the page shows it or not.
func (v *visit) meet(d *draft, patch map[string]any) (same bool, err error) {
	stored, err := v.api.Get(v.context(), d.Ref.Kind, d.Ref.Namespace, d.Ref.Name)
	if err != nil {
		return false, err
	}
	loaded, sealed := d.base, d.sealed
	if err := d.load(stored); err != nil {
		return false, err
	}
	unseen := sealed.changes(d.sealed)
	d.Changes = append(changesOf(loaded, d.base), unseen...)
	d.lay(form.Apply(d.base, patch))
	d.Root = nil
	d.Problem = "Somebody changed this " + d.Kind.Kind + " while you did."
	d.Hint = "Your changes are laid over theirs below. Look at it, and save again."
	return reflect.DeepEqual(loaded, d.base) && len(unseen) == 0, nil
}

func changesOf(before, after map[string]any) []inspect.Change {
	changes, err := diff.Objects(json.RawMessage(compact(before)), json.RawMessage(compact(after)))
	if err != nil {
		return nil
	}
	return changes
}
