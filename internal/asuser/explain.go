package asuser

import (
	"cmp"
	"errors"
	"regexp"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// FieldProblem is what is wrong with one field.
type FieldProblem struct {
	// Field is a path such as "spec.strings[0].gauge"; empty for the object as a whole.
	Field   string
	Message string
}

// Explain says why a request was refused: a title in one sentence, and what is wrong
// with which fields, as far as that is known.
func Explain(err error) (title string, fields []FieldProblem) {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return err.Error(), nil
	}
	s := status.Status()
	fields = causes(s.Details)
	if len(fields) == 0 {
		fields = fieldsOf(s.Message)
	}
	if title, _, cut := strings.Cut(s.Message, ": "); cut && len(fields) > 0 {
		return title, fields // What follows says the same of the fields.
	}
	return s.Message, fields
}

// causes are the problems of fields that the API server lists, by field: it checks the
// fields of a schema in an order that differs from one request to the next.
func causes(details *metav1.StatusDetails) []FieldProblem {
	if details == nil {
		return nil
	}
	var found []FieldProblem
	for _, cause := range details.Causes {
		if cause.Type == metav1.CauseTypeUnexpectedServerResponse || strings.Contains(cause.Message, unchecked) {
			continue
		}
		field := fieldOf(cause.Field)
		found = append(found, FieldProblem{field, plain(cause.Message, field)})
	}
	slices.SortStableFunc(found, func(a, b FieldProblem) int { return cmp.Compare(a.Field, b.Field) })
	return found
}

// unchecked is a cause that only says that there may be others.
const unchecked = "some validation rules were not checked because the object was invalid"

// fieldOf is the path of a cause; that of the whole object is written in two ways.
func fieldOf(field string) string {
	if field == "<nil>" {
		return ""
	}
	return strings.TrimPrefix(field, ".")
}

// invalidValue is what stands before a problem: that there is one, and the value, which
// whoever gave it sees anyway.
var invalidValue = regexp.MustCompile(`^Invalid value: (?:(?:"(?:[^"\\]|\\.)*"|[-+.0-9e]+|null|true|false|\{.*\}|\[.*\]): )?`)

// plain is the message of a cause without what is said of it elsewhere.
func plain(message, field string) string {
	message = invalidValue.ReplaceAllString(message, "")
	return strings.TrimPrefix(message, field+" in body ")
}

var (
	strictProblem = regexp.MustCompile(`(unknown|duplicate) field "([^"]+)"`)
	typeProblem   = regexp.MustCompile(`cannot unmarshal (\S+) into Go struct field [^.\s]+\.(\S+) of type (\S+)`)
)

// fieldsOf reads the problems of fields from a message that lists them in words only.
func fieldsOf(message string) []FieldProblem {
	var found []FieldProblem
	for _, m := range strictProblem.FindAllStringSubmatch(message, -1) {
		text := "this field is not known"
		if m[1] == "duplicate" {
			text = "this field is there twice"
		}
		found = append(found, FieldProblem{m[2], text})
	}
	for _, m := range typeProblem.FindAllStringSubmatch(message, -1) {
		found = append(found, FieldProblem{m[2], "must be of type " + m[3] + ": \"" + m[1] + "\""})
	}
	return found
}
