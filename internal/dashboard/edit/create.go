package edit

import (
	"bytes"
	"compress/flate"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"

	"github.com/setpoint-dev/setpoint/internal/dashboard/form"
	"github.com/setpoint-dev/setpoint/internal/dashboard/format"
	"github.com/setpoint-dev/setpoint/internal/dashboard/userclient"
	"github.com/setpoint-dev/setpoint/internal/dashboard/web"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// showCreate shows the form for a new object.
func showCreate(req *request) error {
	kind, err := req.PathKind()
	if err != nil {
		return err
	}
	namespace := targetNamespace(kind, req.defaultNamespace())
	forbidden := req.requireAccess("create", kind, namespace, "")
	if forbidden != nil && !kind.Namespaced {
		return forbidden
	}
	d := req.newDraft(object.Ref{Kind: kind})
	if forbidden != nil {
		d.warnForbidden(forbidden)
	}
	if d.form != nil {
		d.values = d.form.Blank()
	}
	if kind.Namespaced {
		d.values.Set(".metadata.namespace", namespace)
	}
	d.Text = form.FormatYAML(d.skeleton(namespace))
	if req.Query("as") == modeYAML {
		d.Mode = modeYAML
	}
	d.buildForm()
	if d.Root != nil {
		d.Root.FocusOn(".metadata.name")
	}
	return req.renderDraft(d, 0)
}

// defaultNamespace returns the namespace to preselect.
func (req *request) defaultNamespace() string {
	if wanted := req.Query("namespace"); wanted != "" {
		return wanted
	}
	return "default"
}

// skeleton returns the YAML to start with.
func (d *draft) skeleton(namespace string) map[string]any {
	metadata := map[string]any{"name": ""}
	if d.Namespaced {
		metadata["namespace"] = namespace
	}
	made := map[string]any{"apiVersion": d.APIVersion(), "kind": d.Kind.Kind, "metadata": metadata}
	if d.form != nil && d.form.HasField("spec") {
		made["spec"] = map[string]any{}
	}
	return made
}

// createObject creates the object of the form, or updates the form.
func createObject(req *request) error {
	return req.submitDraft(req.creatableKind, func(d *draft, parsed map[string]any) error {
		if req.wantsPreview(parsed) {
			return req.previewCreate(d, parsed)
		}
		stored, err := req.create(d.Kind, parsed, userclient.WriteOptions{})
		if err != nil {
			return req.renderRejected(d, err)
		}
		var made struct{ Metadata object.Ref }
		if err := json.Unmarshal(stored, &made); err != nil {
			return err
		}
		req.Flash(d.Kind.Kind + " " + made.Metadata.Name + " created.")
		made.Metadata.Kind = d.Kind
		return req.Redirect(web.ObjectURL(made.Metadata))
	})
}

// submitDraft reads the form of a draft. It stores the object, or updates the form. Drafts take
// memory and time, so their users need permission for the target first, and only some are read
// at a time.
func (req *request) submitDraft(target func() (object.Ref, error), store func(d *draft, parsed map[string]any) error) error {
	user := req.User.Name
	if !req.pages.drafts.Acquire(user) {
		return tooManyDrafts()
	}
	defer req.pages.drafts.Release(user)
	ref, missing := target()
	unknown := missing != nil && (userclient.IsUnreachable(missing) || req.AccessError() != nil)
	if missing != nil && !unknown {
		return missing
	}
	if err := req.CheckWrite(); err != nil {
		return err
	}
	if unknown {
		return req.accessUnknown(missing)
	}
	done, err := req.pages.acquireDraftSlot(req.Context())
	if err != nil {
		return err
	}
	done = sync.OnceFunc(done)
	defer done()
	if ref.Name == "" {
		if err := req.requireCreate(ref.Kind); err != nil {
			return err
		}
	}
	d := req.newDraft(ref)
	d.release = done
	if err := d.readForm(req); err != nil {
		return err
	}
	if req.applyButton(d) {
		return req.renderDraft(d, 0)
	}
	parsed, valid := d.parse()
	if !valid {
		return req.renderDraft(d, http.StatusUnprocessableEntity)
	}
	return store(d, parsed)
}

// applyButton handles buttons that only change the form: adding or removing a row, or turning to YAML.
func (req *request) applyButton(d *draft) bool {
	add, remove, to := req.Field("add"), req.Field("remove"), req.Field("turn")
	switch {
	case add != "":
		form.Add(d.values, add)
		d.buildForm()
		if d.Root != nil {
			d.Root.FocusOn(add)
		}
	case remove != "":
		form.Remove(d.values, remove)
	case to != "":
		d.turnToYAML()
	default:
		return false
	}
	return true
}

// showEdit shows the YAML of an object.
func showEdit(req *request) error {
	ref, err := req.editableRef()
	if err != nil {
		return err
	}
	stored, err := req.API.Get(req.Context(), ref.Kind, ref.Namespace, ref.Name)
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

func (req *request) save(d *draft, patch map[string]any) error {
	if len(patch) == 0 {
		req.Flash("Nothing was changed.")
		return req.Redirect(d.Cancel)
	}
	if _, err := req.patchLatest(d, patch, userclient.WriteOptions{}); err != nil {
		return req.renderUnsaved(d, err)
	}
	req.Flash(d.Kind.Kind + " " + d.Ref.Name + " saved.")
	return req.Redirect(d.Cancel)
}

// maxDecodedBytes limits the size of a decoded object.
const maxDecodedBytes = form.MaxBytes

// encodeObject returns an object as a hidden form field: compressed, and in letters that forms
// do not escape. It returns "" for nil.
func encodeObject(object map[string]any) string {
	if object == nil {
		return ""
	}
	var out strings.Builder
	letters := base64.NewEncoder(base64.RawURLEncoding, &out)
	small, err := flate.NewWriter(letters, flate.BestSpeed)
	if err != nil {
		return ""
	}
	encoder := json.NewEncoder(small)
	encoder.SetEscapeHTML(false)
	//nolint:errchkjson // Errors are checked here.
	if encoder.Encode(object) != nil || small.Close() != nil || letters.Close() != nil {
		return ""
	}
	return out.String()
}

// decodeObject decodes an object; nil for "".
func decodeObject(text string) (map[string]any, error) {
	if text == "" {
		return nil, nil //nolint:nilnil // Nil is a valid result.
	}
	letters := base64.NewDecoder(base64.RawURLEncoding, strings.NewReader(text))
	data, err := io.ReadAll(io.LimitReader(flate.NewReader(letters), maxDecodedBytes+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("decode object: %w", err)
	case len(data) > maxDecodedBytes:
		return nil, fmt.Errorf("decode object: more than %s", format.Bytes(maxDecodedBytes))
	}
	return form.DecodeJSON(bytes.TrimSpace(data))
}
