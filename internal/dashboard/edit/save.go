package edit

import (
	"encoding/json"
	"errors"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/setpoint-dev/setpoint/internal/dashboard/form"
	"github.com/setpoint-dev/setpoint/internal/dashboard/processes"
	"github.com/setpoint-dev/setpoint/internal/dashboard/userclient"
	"github.com/setpoint-dev/setpoint/internal/dashboard/web"
	"github.com/setpoint-dev/setpoint/internal/diff"
	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// renderRejected shows the form again with the error of the API server.
func (req *request) renderRejected(d *draft, err error) error {
	p := web.ProblemOf(err)
	text, fields := userclient.DescribeError(err)
	d.Problem, d.Hint, d.Commands = text, p.Hint, p.Commands
	switch {
	case userclient.IsUnreachable(err):
		d.Problem, d.Hint = p.Text, "Your input is kept. Send it again when the API server responds."
	case apierrors.IsNotFound(err) && d.Existing():
		d.Problem = "This " + d.Kind.Kind + " was deleted while you edited it."
		d.Hint = "Nothing was written, and your input is kept. To create it again, copy the YAML into a new " + d.Kind.Kind + "."
	case apierrors.IsAlreadyExists(err) && d.Mode == modeForm:
		d.Problem, d.Hint = "An object with this name already exists.", "Choose another name."
		d.addProblems(form.Problem{Field: "metadata.name", Message: "This name is already in use."})
	case len(fields) > 0:
		d.Problem = "The API server rejected this " + d.Kind.Kind + "."
	}
	for _, each := range fields {
		d.addProblems(form.Problem{Field: each.Field, Message: each.Message})
	}
	return req.renderDraft(d, p.Status)
}

func (req *request) renderDraft(d *draft, status int) error {
	d.buildForm()
	if !d.Existing() {
		d.Troubled = processes.Troubled(processes.Visible(req.Processes.Fetch(req.Context()), req.Can), d.Kind)
	}
	d.Problems = slices.CompactFunc(d.Problems, func(a, b form.Problem) bool { return a.Field == b.Field && a.Message == b.Message })
	return req.Render(web.Page{
		Name: "resource_draft", Title: d.Title(), Section: "resources", Static: true, Status: status, Data: d,
	})
}

// maxConflicts is how often to retry a conflict without visible changes, such as a status
// update.
const maxConflicts = 5

// errConcurrentChange is returned if others changed the object. The draft shows what.
var errConcurrentChange = errors.New("the object changed")

// patchLatest patches the object, unless others have changed what users edit since the page was
// loaded: then the draft shows their changes, and merges them with those of the user.
func (req *request) patchLatest(d *draft, patch map[string]any, o userclient.WriteOptions) (stored json.RawMessage, err error) {
	for race := 0; race == 0 || race < maxConflicts && apierrors.IsConflict(err); race++ {
		base, digest := d.base, d.Digest
		if err := req.loadStored(d); err != nil {
			return nil, err
		}
		if d.Digest != digest {
			d.Changes, d.Text = diffObjects(base, d.base), form.FormatYAML(object.MergePatch(d.base, patch))
			d.Problem = "This " + d.Kind.Kind + " changed while you edited it."
			d.Hint = "Your changes are merged with the other changes below. Check them and save again."
			return nil, errConcurrentChange
		}
		body, invalid := json.Marshal(object.MergePatch(patch, map[string]any{"metadata": map[string]any{"resourceVersion": d.version}}))
		if invalid != nil {
			return nil, invalid
		}
		stored, err = req.API.Patch(req.Context(), d.Ref, types.MergePatchType, body, o)
	}
	return stored, err
}

// diffObjects returns the changes between two objects; none if they are too large to compare.
func diffObjects(before, after map[string]any) []inspect.Change {
	left, _ := json.Marshal(before) //nolint:errchkjson // It was JSON before.
	right, _ := json.Marshal(after) //nolint:errchkjson // It was JSON before.
	changes, _ := diff.Objects(left, right)
	return changes
}
