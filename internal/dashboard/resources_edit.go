package dashboard

import (
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"reflect"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/setpoint-dev/setpoint/internal/dashboard/form"
	"github.com/setpoint-dev/setpoint/internal/dashboard/userclient"
	"github.com/setpoint-dev/setpoint/internal/diff"
	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// showEdit shows the YAML of an object.
func showEdit(req *request) error {
	ref, err := req.editableRef()
	if err != nil {
		return err
	}
	stored, err := req.api.Get(req.context(), ref.Kind, ref.Namespace, ref.Name)
	if err != nil {
		return err
	}
	d := req.newDraft(ref)
	if err := d.loadStored(stored); err != nil {
		return err
	}
	return req.renderDraft(d, 0)
}

// saveObject saves the changes. It patches only what changed, so that
// hidden fields stay.
func saveObject(req *request) error {
	return req.submitDraft(req.editableRef, func(d *draft, parsed map[string]any) error {
		patch := form.Patch(d.base, parsed)
		if req.wantsPreview(parsed) {
			return req.previewEdit(d, parsed, patch)
		}
		return req.save(d, patch)
	})
}

// maxConflicts is how often to retry a conflict without visible changes, such as a status
// update.
const maxConflicts = 5

func (req *request) save(d *draft, patch map[string]any) error {
	if len(patch) == 0 {
		req.flash("Nothing was changed.")
		return req.redirect(d.Cancel)
	}
	if _, err := req.patchLatest(d, patch, userclient.WriteOptions{}); err != nil {
		return req.renderUnsaved(d, err)
	}
	req.flash(d.Kind.Kind + " " + d.Ref.Name + " saved.")
	return req.redirect(d.Cancel)
}

// errConcurrentChange is returned if others changed the object. The draft shows what.
var errConcurrentChange = errors.New("the object changed")

// renderUnsaved shows the form again.
func (req *request) renderUnsaved(d *draft, err error) error {
	if errors.Is(err, errConcurrentChange) {
		return req.renderDraft(d, http.StatusConflict)
	}
	return req.renderRejected(d, err)
}

// patchLatest patches the changes. If only the version of the object changed, it retries.
func (req *request) patchLatest(d *draft, patch map[string]any, o userclient.WriteOptions) (json.RawMessage, error) {
	for race := 1; ; race++ {
		stored, err := req.patchDraft(d, patch, o)
		if !apierrors.IsConflict(err) {
			return stored, err
		}
		same, err := req.rebase(d, patch)
		if err != nil {
			return nil, err
		}
		if !same || race == maxConflicts {
			return nil, errConcurrentChange
		}
	}
}

// patchDraft patches the changes, unless the object changed meanwhile.
func (req *request) patchDraft(d *draft, patch map[string]any, o userclient.WriteOptions) (json.RawMessage, error) {
	metadata, _ := patch["metadata"].(map[string]any)
	versioned, meta := maps.Clone(patch), map[string]any{"resourceVersion": d.Version}
	maps.Copy(meta, metadata)
	versioned["metadata"] = meta
	body, err := json.Marshal(versioned)
	if err != nil {
		return nil, err
	}
	return req.api.Patch(req.context(), d.Ref, types.MergePatchType, body, o)
}

// rebase applies the user's changes to the current object, and shows what others changed. It
// returns true if nothing changed that users edit.
func (req *request) rebase(d *draft, patch map[string]any) (same bool, err error) {
	stored, err := req.api.Get(req.context(), d.Ref.Kind, d.Ref.Namespace, d.Ref.Name)
	if err != nil {
		return false, err
	}
	loaded := d.loaded
	if err := d.loadStored(stored); err != nil {
		return false, err
	}
	d.Changes = diffObjects(loaded, d.loaded)
	d.Text = form.FormatYAML(object.MergePatch(d.base, patch))
	d.Problem = "This " + d.Kind.Kind + " changed while you edited it."
	d.Hint = "Your changes are merged with the other changes below. Check them and save again."
	return reflect.DeepEqual(loaded, d.loaded), nil
}

// diffObjects returns the changes between two objects; none if they are too large to compare.
func diffObjects(before, after map[string]any) []inspect.Change {
	left, _ := json.Marshal(before) //nolint:errchkjson // It was JSON before.
	right, _ := json.Marshal(after) //nolint:errchkjson // It was JSON before.
	changes, _ := diff.Objects(left, right)
	return changes
}
