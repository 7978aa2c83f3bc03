package dashboard

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"reflect"
	"strconv"
	"sync"

	"github.com/setpoint-dev/setpoint/internal/dashboard/form"
	"github.com/setpoint-dev/setpoint/internal/dashboard/model"
	"github.com/setpoint-dev/setpoint/internal/dashboard/timeline"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// restoreURL returns where to preview an object with the spec that a run has seen.
func (s *pageObject) restoreURL(run *model.Run) string {
	return s.URL("runs", strconv.FormatUint(run.ID, 10), "restore") + "?" + url.Values{"in": {run.Process}}.Encode()
}

// formerFields returns the fields that a run has seen and users edit, apart from metadata. The
// error says why they cannot be restored.
func formerFields(s *pageObject, run *model.Run) (map[string]any, error) {
	call, _ := timeline.MainCall(run.Steps)
	if call == nil || len(call.Request) == 0 || call.Review != nil {
		return nil, errors.New("its request is no longer in memory")
	}
	var seen struct{ Parent, Object json.RawMessage }
	if err := json.Unmarshal(call.Request, &seen); err != nil {
		return nil, fmt.Errorf("decode the request: %w", err)
	}
	if seen.Parent == nil {
		seen.Parent = seen.Object
	}
	former, err := form.DecodeJSON(seen.Parent)
	switch {
	case err != nil:
		return nil, fmt.Errorf("decode the object of the request: %w", err)
	case object.IsSecret(former):
		return nil, errors.New("the history has no values of Secrets")
	case former["hidden"] != nil:
		return nil, errors.New("you cannot get the object of the request")
	case former["apiVersion"] != s.APIVersion():
		return nil, fmt.Errorf("the run has seen version %v, and this page edits %s", former["apiVersion"], s.APIVersion())
	}
	for _, name := range []string{"apiVersion", "kind", "metadata", "status"} {
		delete(former, name)
	}
	if at := model.FindReplaced(former); at != "" {
		return nil, fmt.Errorf("the history does not have %s, which is of a Secret or of an object that you cannot get", at)
	}
	return former, nil
}

// withFields returns an object with other fields, apart from its metadata and status.
func withFields(stored, fields map[string]any) map[string]any {
	made := map[string]any{}
	for _, name := range []string{"apiVersion", "kind", "metadata", "status"} {
		if value, has := stored[name]; has {
			made[name] = value
		}
	}
	return form.Apply(made, fields)
}

// restorable reports whether a run has seen another spec than the present one.
func (s *pageObject) restorable(run *model.Run) bool {
	former, err := formerFields(s, run)
	if s.Deleted || err != nil {
		return false
	}
	present, err := form.DecodeJSON(s.raw)
	if err != nil {
		return false
	}
	return !reflect.DeepEqual(withFields(present, former), withFields(present, withoutFixed(present)))
}

// withoutFixed returns the fields that a spec replaces.
func withoutFixed(present map[string]any) map[string]any {
	return form.Apply(present, map[string]any{"apiVersion": nil, "kind": nil, "metadata": nil, "status": nil})
}

// restoreActions returns the action to restore the spec that a run has seen; none if that is the
// present one.
func (req *request) restoreActions(s *pageObject, run *model.Run) []action {
	if !s.restorable(run) {
		return nil
	}
	return []action{{
		Label: "Restore this spec", Icon: "undo", Post: true, Opens: true, URL: s.restoreURL(run),
		DisabledReason: req.missingPermission("patch", s.Ref),
	}}
}

// restoreSpec shows a draft with the spec that a run has seen, and its preview. The limits are
// those of submitDraft.
func restoreSpec(req *request) error {
	user := req.identity.User.Name
	if !req.drafts.acquire(user) {
		return tooManyDrafts()
	}
	defer req.drafts.release(user)
	ref, err := req.editableRef()
	if err != nil {
		return err
	}
	s, err := req.loadObject()
	if err != nil {
		return err
	}
	run, err := req.runFromURL(&runLoader{request: req, runs: map[runKey]model.Run{}}, s)
	if err != nil {
		return err
	}
	former, err := formerFields(s, &run)
	switch {
	case s.Deleted:
		return notFound("%s %s is deleted.", s.Kind.Kind, s.Name)
	case err != nil:
		return &problem{
			Status: http.StatusUnprocessableEntity, Title: "Not restored",
			Text: fmt.Sprintf("The spec of run %d cannot be restored: %v.", run.ID, err),
		}
	}
	done, err := req.acquireDraftSlot(req.context())
	if err != nil {
		return err
	}
	done = sync.OnceFunc(done)
	defer done()
	d := req.newDraft(ref)
	d.release = done
	if err := d.loadStored(s.raw); err != nil {
		return err
	}
	restored := withFields(d.base, former)
	d.setObject(restored)
	d.Notice = fmt.Sprintf("The spec of the run at %s. Nothing is restored until you save.", timeOfDay(run.Began))
	return req.previewEdit(d, restored, form.Patch(d.base, restored))
}
