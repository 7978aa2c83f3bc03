package record

import (
	"bytes"
	"cmp"
	"encoding/json"
	"strconv"
	"strings"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
	"github.com/setpoint-dev/setpoint/internal/redact"
)

// ReviewedName returns the name of the reviewed object, or its prefix and "*" if the API server has yet to generate it.
func (r *Run) ReviewedName() string {
	if review := r.Review(); r.Object.Name == "" && review != nil && review.GenerateName != "" {
		return review.GenerateName + "*"
	}
	return r.Object.Name
}

// ReviewMessage returns what a review said: its error or denial, its warnings, or the fields that
// it changed; "" for nothing.
func (r *Run) ReviewMessage() string {
	review := r.Review()
	switch {
	case review == nil || r.Error != "":
		return r.Error
	case review.Denied:
		return cmp.Or(review.Message, review.Reason, "no message")
	case len(review.Warnings) > 0:
		return "warning: " + strings.Join(review.Warnings, "; ")
	case len(review.Fields) > 0:
		more := ""
		if review.MoreFields {
			more = " and more"
		}
		return "changed " + strings.Join(review.Fields, ", ") + more
	}
	return ""
}

// The bounds of what is shown of a review, in details (maxReviewChanges) and in lists. The latter
// stays in the history when requests and responses are dropped.
const (
	maxReviewFields   = 4
	maxReviewChanges  = 50
	maxReviewWarnings = 16
	maxReviewText     = 2000
	maxReviewName     = 253
)

// renderReview returns the review of a call; whole adds what only details have.
func renderReview(c *Call, about object.GroupKind, whole bool) *Review {
	request, response := c.Sent.Review, c.Received.Review
	review := &Review{
		Operation: strings.ToLower(string(request.Operation)), Subresource: request.Subresource, GenerateName: generateName(request),
		DryRun: request.DryRun, User: failure.Truncate(request.User.Name, maxReviewName), Unverified: c.Unverified,
	}
	if response != nil {
		for _, warning := range response.Warnings[:min(len(response.Warnings), maxReviewWarnings)] {
			review.Warnings = append(review.Warnings, failure.Truncate(warning, maxReviewText))
		}
	}
	if response != nil && response.Denial != nil {
		review.Denied, review.Reason = true, failure.Truncate(response.Denial.Reason, maxReviewText)
		review.Message = failure.Truncate(response.Denial.Message, maxReviewText)
	}
	changes, more := mutations(request, c.Received.ReviewPatch, whole)
	changes, review.MoreFields = redact.Changes(about, changes), more
	for _, change := range changes[:min(len(changes), maxReviewFields)] {
		review.Fields = append(review.Fields, failure.Truncate(change.Path, maxReviewName))
	}
	if whole {
		review.Groups, review.Requested, review.Changes = request.User.Groups, requestedChanges(request), changes
	}
	return review
}

func (r *Review) brief() *Review {
	brief := *r
	brief.Groups, brief.Requested, brief.Changes = nil, nil, nil
	return &brief
}

// generateName returns the prefix of a name that the API server has yet to generate.
func generateName(r *hook.ReviewRequest) (prefix string) {
	if r.Name != "" || r.Operation != hook.OperationCreate {
		return ""
	}
	if o, err := object.Parse(r.Object); err == nil && o.Name() == "" {
		_ = json.Unmarshal(o.Field("metadata", "generateName"), &prefix) // A missing one is "".
	}
	return failure.Truncate(prefix, maxReviewName)
}

func requestedChanges(r *hook.ReviewRequest) []object.FieldChange {
	if len(r.OldObject) == 0 || len(r.Object) == 0 {
		return nil
	}
	before, errBefore := object.Parse(r.OldObject)
	after, errAfter := object.Parse(r.Object)
	if errBefore != nil || errAfter != nil {
		return nil
	}
	changes, _ := plan.Compare(before, after) // Nil after an error.
	return changes
}

// mutations returns the first fields that the patch of a webhook changes, and whether there are
// more. In lists, only their paths matter.
func mutations(r *hook.ReviewRequest, patch json.RawMessage, whole bool) (changes []object.FieldChange, more bool) {
	most := maxReviewFields
	if whole {
		most = maxReviewChanges
	}
	operations, more := patchOperations(patch, most)
	for i := range operations {
		o := &operations[i]
		change := object.FieldChange{Path: pathOf(o.Path), To: o.Value}
		if whole {
			change.From, change.To = o.values(r.Object)
		}
		changes = append(changes, change)
	}
	return changes, more
}

type patchOperation struct {
	Op, Path, From string
	Value          json.RawMessage
}

// patchOperations decodes the first operations that change something, and reports whether there
// are more. A hook may send very many.
func patchOperations(patch json.RawMessage, most int) (all []patchOperation, more bool) {
	reader := json.NewDecoder(bytes.NewReader(patch))
	if _, err := reader.Token(); err != nil {
		return nil, false
	}
	for reader.More() {
		var o patchOperation
		switch err := reader.Decode(&o); {
		case err != nil:
			return all, false
		case o.Op == "test":
		case len(all) == most:
			return all, true
		default:
			all = append(all, o)
		}
	}
	return all, false
}

// values returns what an operation replaces in an object, and by what.
func (o *patchOperation) values(in json.RawMessage) (from, to json.RawMessage) {
	to = o.Value
	if o.From != "" {
		to = valueAt(in, o.From)
	}
	if strings.HasSuffix(o.Path, "/-") || o.Op == "add" && inList(o.Path) {
		return nil, to // An insertion moves the old value on.
	}
	return valueAt(in, o.Path), to
}

func pointer(path string) []string {
	names := strings.Split(strings.TrimPrefix(path, "/"), "/")
	for i, name := range names {
		names[i] = strings.ReplaceAll(strings.ReplaceAll(name, "~1", "/"), "~0", "~")
	}
	return names
}

// inList reports whether the last token of a JSON pointer is an index.
func inList(path string) bool {
	names := pointer(path)
	_, err := strconv.Atoi(names[len(names)-1])
	return err == nil
}

func pathOf(path string) string {
	field := ""
	for _, name := range pointer(path) {
		switch _, err := strconv.Atoi(name); {
		case name == "-":
			field += "[new]"
		case err == nil:
			field += "[" + name + "]"
		default:
			field = object.JoinPath(field, name)
		}
	}
	return field
}

// valueAt returns the value at a JSON pointer; nil if there is none.
func valueAt(text json.RawMessage, path string) json.RawMessage {
	for _, name := range pointer(path) {
		var members map[string]json.RawMessage
		var items []json.RawMessage
		at, err := strconv.Atoi(name)
		switch {
		case json.Unmarshal(text, &members) == nil:
			text = members[name]
		case json.Unmarshal(text, &items) == nil && err == nil && at >= 0 && at < len(items):
			text = items[at]
		default:
			return nil
		}
	}
	return text
}
