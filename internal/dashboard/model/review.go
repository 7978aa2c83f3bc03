package model

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
	"github.com/setpoint-dev/setpoint/internal/record"
)

// Review is the request and decision of an admission webhook.
type Review struct {
	// Operation is "create", "update", "delete" or "connect".
	Operation string `json:"operation"`
	// Subresource is set for a review of a subresource, GenerateName if the object has no
	// name yet.
	Subresource  string `json:"subresource,omitempty"`
	GenerateName string `json:"generateName,omitempty"`
	DryRun       bool   `json:"dryRun,omitempty"`
	// User sent the request, if the review is from the API server; Unverified means that its
	// caller did not prove that.
	User       string `json:"user,omitempty"`
	Unverified bool   `json:"unverified,omitempty"`
	// Denied reports a denial, with Message and Reason.
	Denied  bool   `json:"denied,omitempty"`
	Message string `json:"message,omitempty"`
	Reason  string `json:"reason,omitempty"`
	// Warnings were shown to the user.
	Warnings []string `json:"warnings,omitempty"`
	// Fields are the first fields that the webhook changed.
	Fields []string `json:"fields,omitempty"`
	// Groups are those of the user, Requested the fields that an update changes, and
	// Changes those that the webhook changed; only set in details.
	Groups    []string `json:"groups,omitempty"`
	Requested []Change `json:"requested,omitempty"`
	Changes   []Change `json:"changes,omitempty"`
}

// The bounds of what lists show of a review, which stays in the history when requests and
// responses are dropped.
const (
	maxReviewFields   = 4
	maxReviewWarnings = 16
	maxReviewText     = 2000
)

// reviewOf renders a review; nil for other calls.
func (w *renderer) reviewOf(a *record.Call) *Review {
	request, response := a.Request.Review, a.Response.Review
	if request == nil {
		return nil
	}
	review := &Review{
		Operation: strings.ToLower(string(request.Operation)), Subresource: request.Subresource, GenerateName: generateName(request),
		DryRun: request.DryRun, User: request.User.Name, Unverified: a.Unverified,
	}
	if response != nil {
		for _, warning := range response.Warnings[:min(len(response.Warnings), maxReviewWarnings)] {
			review.Warnings = append(review.Warnings, truncateReview(warning))
		}
	}
	if response != nil && response.Denial != nil {
		review.Denied, review.Reason = true, truncateReview(response.Denial.Reason)
		review.Message = truncateReview(response.Denial.Message)
	}
	changes := w.mutations(request, a.Response.ReviewPatch)
	for i := range min(len(changes), maxReviewFields) {
		review.Fields = append(review.Fields, changes[i].Path)
	}
	if w.whole {
		review.Groups, review.Requested, review.Changes = request.User.Groups, requestedChanges(request), changes
	}
	if w.resource.GroupKind().IsSecret() {
		review.Message = redactQuotes(review.Message)
	}
	return review
}

// truncateReview bounds a text of a hook. It keeps no reference to a longer one.
func truncateReview(text string) string {
	if len(text) <= maxReviewText {
		return text
	}
	return strings.ToValidUTF8(text[:maxReviewText], "") + "…"
}

// generateName returns the prefix of a name that the API server has yet to generate.
func generateName(r *hook.ReviewRequest) (prefix string) {
	if r.Name != "" || r.Operation != hook.OperationCreate {
		return ""
	}
	if o, err := object.Parse(r.Object); err == nil && o.Name() == "" {
		_ = json.Unmarshal(o.Field("metadata", "generateName"), &prefix) // A missing one is "".
	}
	return prefix
}

// requestedChanges returns the fields that an update changes.
func requestedChanges(r *hook.ReviewRequest) []Change {
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

// mutations returns the fields that the patch of a webhook changes. In lists, only their paths
// matter.
func (w *renderer) mutations(r *hook.ReviewRequest, patch json.RawMessage) []Change {
	var operations []struct {
		Op, Path, From string
		Value          json.RawMessage
	}
	if len(patch) == 0 || json.Unmarshal(patch, &operations) != nil {
		return nil
	}
	var changes []Change
	for _, o := range operations {
		if o.Op == "test" {
			continue
		}
		change := Change{Path: pathOf(o.Path), To: o.Value}
		if !w.whole {
			changes = append(changes, change)
			continue
		}
		change.From = valueAt(r.Object, o.Path)
		if o.From != "" {
			change.To = valueAt(r.Object, o.From)
		}
		if strings.HasSuffix(o.Path, "/-") || o.Op == "add" && inList(o.Path) {
			change.From = nil // An insertion moves the old value on.
		}
		changes = append(changes, change)
	}
	return plan.MaskSecret(w.resource.GroupKind(), changes)
}

// pointer splits a JSON pointer.
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

// pathOf converts a JSON pointer to a field path.
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
