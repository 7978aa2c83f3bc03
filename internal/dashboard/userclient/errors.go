package userclient

import (
	"cmp"
	"errors"
	"regexp"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// FieldError is what is wrong with one field.
type FieldError struct {
	// Field is a path such as "spec.strings[0].gauge"; empty for the object as a whole.
	Field   string
	Message string
}

// DescribeError says why a request was refused: a title in one sentence, and what is wrong
// with which fields, as far as that is known.
func DescribeError(err error) (title string, fields []FieldError) {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return err.Error(), nil
	}
	s := status.Status()
	fields = fieldCauses(s.Details)
	if len(fields) == 0 {
		fields = parseFieldErrors(s.Message)
	}
	if title, _, cut := strings.Cut(s.Message, ": "); cut && len(fields) > 0 {
		return title, fields // What follows says the same of the fields.
	}
	return s.Message, fields
}

// fieldCauses are the problems of fields that the API server lists, by field: it checks the
// fields of a schema in an order that differs from one request to the next.
func fieldCauses(details *metav1.StatusDetails) []FieldError {
	if details == nil {
		return nil
	}
	var found []FieldError
	for _, cause := range details.Causes {
		if cause.Type == metav1.CauseTypeUnexpectedServerResponse || strings.Contains(cause.Message, uncheckedRules) {
			continue
		}
		field := fieldPath(cause.Field)
		found = append(found, FieldError{field, trimCause(cause.Message, field)})
	}
	slices.SortStableFunc(found, func(a, b FieldError) int { return cmp.Compare(a.Field, b.Field) })
	return found
}

// uncheckedRules is a cause that only says that there may be others.
const uncheckedRules = "some validation rules were not checked because the object was invalid"

// fieldPath is the path of a cause; that of the whole object is written in two ways.
func fieldPath(field string) string {
	if field == "<nil>" {
		return ""
	}
	return strings.TrimPrefix(field, ".")
}

// invalidValuePrefix is what stands before a problem: that there is one, and the value, which
// whoever gave it sees anyway.
var invalidValuePrefix = regexp.MustCompile(`^Invalid value: (?:(?:"(?:[^"\\]|\\.)*"|[-+.0-9e]+|null|true|false|\{.*\}|\[.*\]): )?`)

// trimCause is the message of a cause without what is said of it elsewhere.
func trimCause(message, field string) string {
	message = invalidValuePrefix.ReplaceAllString(message, "")
	return strings.TrimPrefix(message, field+" in body ")
}

var (
	strictFieldPattern = regexp.MustCompile(`(unknown|duplicate) field "([^"]+)"`)
	typeErrorPattern   = regexp.MustCompile(`cannot unmarshal (\S+) into Go struct field [^.\s]+\.(\S+) of type (\S+)`)
)

// parseFieldErrors reads the problems of fields from a message that lists them in words only.
func parseFieldErrors(message string) []FieldError {
	var found []FieldError
	for _, m := range strictFieldPattern.FindAllStringSubmatch(message, -1) {
		text := "this field is not known"
		if m[1] == "duplicate" {
			text = "this field is there twice"
		}
		found = append(found, FieldError{m[2], text})
	}
	for _, m := range typeErrorPattern.FindAllStringSubmatch(message, -1) {
		found = append(found, FieldError{m[2], "must be of type " + m[3] + ": \"" + m[1] + "\""})
	}
	return found
}
