package plan

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/setpoint-dev/setpoint/internal/object"
)

// Children are created by POST also where server-side apply brings them in line
// later. An apply cannot say that there must be no such object yet: it would
// take over somebody else's of that name. It also costs the API server 1.4
// times the CPU of a POST (measured 32 at once: ConfigMaps 690/s and 450/s,
// Deployments 380/s and 300/s). The price is that a POST owns its fields as an
// update does, defaults included, so that an apply that leaves one of them out
// does not remove it. Therefore the first that does so takes over these fields.

// appliedRecord is what the annotation Applied of a child says: how and by whom its
// fields came to be owned, and which fields were desired, as a hash of their
// outline. It holds no values, and no hash of any.
type appliedRecord struct {
	// verb is Create until what was created is taken over, and Apply then; "" if
	// there is no annotation, or one that was spoilt.
	verb     Verb
	fieldSet string
	manager  string
}

// appliedRecordOf reads the annotation of a child.
func appliedRecordOf(observed *object.Object) appliedRecord {
	var text string
	if field := observed.Field("metadata", "annotations", AppliedAnnotation); field == nil || json.Unmarshal(field, &text) != nil {
		return appliedRecord{}
	}
	parts := strings.SplitN(text, ":", 3)
	if len(parts) != 3 || parts[0] != string(Create) && parts[0] != string(Apply) {
		return appliedRecord{}
	}
	return appliedRecord{verb: Verb(parts[0]), fieldSet: parts[1], manager: parts[2]}
}

func (n appliedRecord) String() string { return string(n.verb) + ":" + n.fieldSet + ":" + n.manager }

// appliedRecordFor is what a child is to remember of a wish.
func (f *Planner) appliedRecordFor(verb Verb, w desiredFields) appliedRecord {
	return appliedRecord{verb: verb, fieldSet: fieldSetHash(w.fields), manager: f.Manager}
}

// hasSameFields says that a child remembers the same fields by the same manager.
func (n appliedRecord) hasSameFields(other appliedRecord) bool {
	return n.verb != "" && n.fieldSet == other.fieldSet && n.manager == other.manager
}

// TakeOver says whose fields become the manager's before an apply, so that
// those which are desired no more vanish with it.
type TakeOver struct {
	// From are the managers that wrote the child so far.
	From []FormerManager
	// Applied are labels, annotations and finalizers known to have been applied,
	// as they stand in metadata.
	Applied map[string]any
	// RemoveAnnotations are annotations to remove.
	RemoveAnnotations []string
	// OnlyLeftovers takes over only if something lingers after the apply, which is then
	// repeated.
	OnlyLeftovers bool
}

// FormerManager is a manager that wrote a child so far.
type FormerManager struct {
	Name string
	// Shared says that others wrote under the same name what is not the child's
	// to lose: a label, annotation or finalizer that is not in Applied stays.
	Shared bool
}

// sharedManagers are the managers of all that Setpoint and Metacontroller write
// but by server-side apply: children, and also finalizers of a child that is
// itself a parent, and what a decorator adds to it.
var sharedManagers = []string{"setpoint", "metacontroller"}

// serverSide plans to bring a child in line by server-side apply. Nothing is to
// be done where all that is desired is observed, and nothing else was desired
// before. All else the server decides: where it makes of the wish what is there
// already, it stores nothing, and the caller knows by Settled.
func (f *Planner) serverSide(action Action, desired *object.Object) (Action, error) {
	c, err := f.comparison(action.Before, desired)
	if err != nil || c.equal() {
		return Action{}, err
	}
	action.Verb, action.Manager = Apply, f.Manager
	action.FieldPath, action.Reason = c.path(), c.reason()
	action.TakeOver = f.takeOver(c.observed, c.record)
	if c.hasSameFieldSet() {
		c.newRecord = c.record
		if action.TakeOver != nil {
			action.TakeOver.OnlyLeftovers = true
		}
	}
	action.After, err = f.applied(action.Before, c.desired, c.newRecord)
	return action, err
}

// recreateServerSide plans to delete a child that differs, unless the server
// makes of the wish what is there already: a quantity may be written in another
// way, or a field may be set to its default. To find out, no fields need to be
// taken over where none was dropped.
func (f *Planner) recreateServerSide(action Action, desired *object.Object) (Action, error) {
	c, err := f.comparison(action.Before, desired)
	if err != nil || c.equal() {
		return Action{}, err
	}
	action.Verb, action.DryRunVerb, action.Manager = Delete, Apply, f.Manager
	action.FieldPath, action.Reason = c.path(), c.reason()
	if c.record.hasSameFields(c.newRecord) {
		c.newRecord = c.record
	} else {
		action.TakeOver = f.takeOver(c.observed, c.record)
	}
	action.After, err = f.applied(action.Before, c.desired, c.newRecord)
	return action, err
}

// comparison is what is desired of a child beside what is observed.
type comparison struct {
	desired  desiredFields
	observed map[string]any
	// fieldPath is the first field that is not as desired; "" for none.
	fieldPath string
	// record is what the child remembers, wanted what it is to remember.
	record, newRecord appliedRecord
}

func (f *Planner) comparison(observed, desired *object.Object) (c comparison, err error) {
	if c.desired, err = f.desiredFieldsOf(desired); err != nil {
		return c, err
	}
	if c.observed, err = tree(observed.JSON()); err != nil {
		return c, err
	}
	c.fieldPath, c.record = missingField(c.observed, c.desired.fields), appliedRecordOf(observed)
	c.newRecord = f.appliedRecordFor(Apply, c.desired)
	return c, nil
}

// hasSameFieldSet says that nothing is to vanish, as far as can be told: the same
// fields are desired as before, and no item of a list is another one. Then what
// was created need not be taken over, which costs two requests. By what the
// server tells items apart, only the server knows: see Lingers.
func (c comparison) hasSameFieldSet() bool {
	return c.record.hasSameFields(c.newRecord) && sameItems(c.observed, c.desired.fields)
}

func (c comparison) equal() bool { return c.fieldPath == "" && c.record.hasSameFields(c.newRecord) }

// path is the first field that differs. What is remembered counts where somebody
// removed it, but not where it is of another wish.
func (c comparison) path() string {
	if c.fieldPath == "" && c.record.verb == "" {
		return join("metadata.annotations", AppliedAnnotation)
	}
	return c.fieldPath
}

func (c comparison) reason() string {
	if path := c.path(); path != "" {
		return path + " differs"
	}
	return "other fields were desired before"
}

// appliedBefore says that the server was the last to apply to the child, and
// fields of other names than are desired now.
func (f *Planner) appliedBefore(observed, desired *object.Object) (bool, error) {
	record := appliedRecordOf(observed)
	if record.verb == "" {
		return false, nil
	}
	w, err := f.desiredFieldsOf(desired)
	if err != nil {
		return false, err
	}
	return record.fieldSet != fieldSetHash(w.fields), nil
}

// finishServerSide plans to apply for the last time before the child is merged:
// only the server knows which fields are desired no more. No agreement on the
// child comes of it, so that the merge follows.
func (f *Planner) finishServerSide(action Action, desired *object.Object) (Action, error) {
	action, err := f.serverSide(action, desired)
	action.Desired = 0
	return action, err
}

// applied is what is sent: the wish, bound to the very object observed.
func (f *Planner) applied(observed *object.Object, w desiredFields, n appliedRecord) (*object.Object, error) {
	setAnnotation(w.fields, AppliedAnnotation, n.String())
	addOwner(w.fields, f.Parent)
	w.fields["metadata"].(map[string]any)["uid"] = observed.UID()
	return objectOf(w.fields)
}

// takeOver is nil where the manager has all its fields already.
func (f *Planner) takeOver(have map[string]any, record appliedRecord) *TakeOver {
	if record.verb != "" {
		if record.verb == Apply && record.manager == f.Manager {
			return nil
		}
		return &TakeOver{From: []FormerManager{{Name: record.manager}}}
	}
	t := &TakeOver{From: []FormerManager{{Name: f.Manager, Shared: slices.Contains(sharedManagers, f.Manager)}}}
	for _, name := range sharedManagers {
		if name != f.Manager {
			t.From = append(t.From, FormerManager{Name: name, Shared: true})
		}
	}
	annotations, _ := member(have, "metadata", "annotations").(map[string]any)
	for _, key := range f.lastAppliedKeys() {
		if _, given := annotations[key]; given {
			t.RemoveAnnotations = append(t.RemoveAnnotations, key)
		}
	}
	last, _ := f.lastApplied(have)
	t.Applied, _ = last["metadata"].(map[string]any)
	return t
}
