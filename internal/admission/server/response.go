package server

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"unicode"

	admissionv1 "k8s.io/api/admission/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/admission"
	"github.com/setpoint-dev/setpoint/internal/admission/patch"
	"github.com/setpoint-dev/setpoint/internal/object"
)

var errNoResponse = errors.New("the hook returned neither a response nor an error")

// reviewResponse converts a response to an AdmissionReview, and returns its result.
func reviewResponse(w *admission.Webhook, r *hook.ReviewRequest, v *hook.ReviewResponse) (*admissionv1.AdmissionReview, admission.Result,
	error) {
	if v == nil {
		return nil, admission.Errored, errNoResponse
	}
	response := &admissionv1.AdmissionResponse{
		UID:              types.UID(r.UID),
		Allowed:          v.Denial == nil,
		Warnings:         cleanWarnings(v.Warnings),
		AuditAnnotations: cleanAudit(v.AuditAnnotations),
	}
	if v.Denial != nil {
		response.Result = denialStatus(v.Denial)
		return newAdmissionReview(response), admission.Denied, nil
	}
	changes, err := patch.For(r, v)
	switch {
	case err != nil:
		return nil, admission.Errored, fmt.Errorf("changes: %w", err)
	case changes == nil:
		return newAdmissionReview(response), admission.Allowed, nil
	case !w.Mutates:
		return nil, admission.Errored, errors.New("a validating webhook must not change the object; use a mutating webhook")
	}
	form := admissionv1.PatchTypeJSONPatch
	response.Patch, response.PatchType = changes, &form
	return newAdmissionReview(response), admission.Mutated, nil
}

func newAdmissionReview(response *admissionv1.AdmissionResponse) *admissionv1.AdmissionReview {
	return &admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: reviewVersion, Kind: reviewKind},
		Response: response,
	}
}

func encode(a *admissionv1.AdmissionReview) ([]byte, error) {
	data, err := json.Marshal(a)
	if err != nil {
		return nil, fmt.Errorf("encode the response: %w", err)
	}
	return data, nil
}

// denialStatus returns the status of a denial. Only codes of errors are valid.
func denialStatus(d *hook.Denial) *metav1.Status {
	status := &metav1.Status{
		Status: metav1.StatusFailure, Message: d.Message,
		Reason: metav1.StatusReason(d.Reason), Code: int32(d.Code),
	}
	if d.Code < http.StatusBadRequest || d.Code > maxCode {
		status.Code = codeOf(status.Reason)
	}
	if status.Reason == "" {
		status.Reason = reasonOf(int(status.Code))
	}
	return status
}

// codeOf returns the status code that goes with a reason; that of Forbidden if none does.
func codeOf(reason metav1.StatusReason) int32 {
	if reason == metav1.StatusReasonAlreadyExists {
		return http.StatusConflict // As Conflict, which the code alone means.
	}
	for code := http.StatusBadRequest; code <= maxCode && reason != ""; code++ {
		if reasonOf(code) == reason {
			return int32(code)
		}
	}
	return http.StatusForbidden
}

// reasonOf returns the reason that goes with a status code, as clients of the API server know it.
func reasonOf(code int) metav1.StatusReason {
	return apierrors.NewGenericServerResponse(code, http.MethodPut, schema.GroupResource{}, "", "", 0, false).Status().Reason
}

// maxCode is the last HTTP status that there is.
const maxCode = 599

// responseEvents returns the events of a response, each with its object. Objects that do
// not and will not exist have none.
func responseEvents(r *hook.ReviewRequest, v *hook.ReviewResponse) []hook.ObjectEvent {
	if r.DryRun {
		return nil
	}
	var all []hook.ObjectEvent
	for _, event := range v.Events {
		if event.Kind == "" {
			event.APIVersion, event.Kind, event.Namespace, event.Name = r.APIVersion, r.Kind, r.Namespace, r.Name
		}
		if event.APIVersion != r.APIVersion || event.Kind != r.Kind || event.Namespace != r.Namespace || event.Name != r.Name {
			all = append(all, event)
			continue
		}
		neverThere := r.Operation == hook.OperationCreate && v.Denial != nil
		if event.Name == "" || neverThere {
			continue
		}
		if event.UID == "" {
			event.UID = uidOf(r)
		}
		all = append(all, event)
	}
	return all
}

func uidOf(r *hook.ReviewRequest) string {
	if r.OldObject == nil {
		return ""
	}
	old, err := object.Parse(r.OldObject)
	if err != nil {
		return ""
	}
	return old.UID()
}

// cleanWarnings drops warnings that the API server silently drops: empty ones, invalid
// UTF-8, and those beyond its limits.
func cleanWarnings(given []string) []string {
	var clean []string
	for _, warning := range given {
		warning = strings.Map(printable, strings.ToValidUTF8(warning, "\uFFFD"))
		if warning = strings.TrimSpace(warning); warning != "" {
			clean = append(clean, warning)
		}
	}
	return clean
}

func printable(c rune) rune {
	if unicode.IsControl(c) {
		return ' '
	}
	return c
}

// cleanAudit makes valid audit keys. The API server prefixes them with the webhook's
// name, and drops invalid ones.
func cleanAudit(given map[string]string) map[string]string {
	if len(given) == 0 {
		return nil
	}
	clean := make(map[string]string, len(given))
	// In order, so that of two that come to the same key the same one is left.
	for _, key := range slices.Sorted(maps.Keys(given)) {
		if allowed := auditKey(key); allowed != "" {
			clean[allowed] = given[key]
		}
	}
	return clean
}

// auditKey replaces invalid characters by dashes; "" if nothing is left.
func auditKey(key string) string {
	if !strings.Contains(key, "/") && len(validation.IsQualifiedName(key)) == 0 {
		return key
	}
	key = strings.Map(func(c rune) rune {
		if isAlphanumeric(c) || strings.ContainsRune("-_.", c) {
			return c
		}
		return '-'
	}, key)
	key = key[:min(len(key), validation.DNS1123LabelMaxLength)]
	return strings.TrimFunc(key, func(c rune) bool { return !isAlphanumeric(c) })
}

func isAlphanumeric(c rune) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}
