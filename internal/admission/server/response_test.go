package server

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/net"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/admission"
	"github.com/setpoint-dev/setpoint/internal/must"
)

func TestReviewResponse(t *testing.T) {
	const head = `{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","response":{"uid":"u","allowed":`
	for name, c := range map[string]struct {
		response  hook.ReviewResponse
		validates bool
		result    admission.Result
		want      string
		wantErr   string
	}{
		"allowed": {result: admission.Allowed, want: `true}}`},
		"denied": {
			response: hook.ReviewResponse{Denial: &hook.Denial{Message: "no"}},
			result:   admission.Denied, want: `false,"status":{"metadata":{},"status":"Failure","message":"no","reason":"Forbidden","code":403}}}`,
		},
		"denied for a reason": {
			response: hook.ReviewResponse{Denial: &hook.Denial{Message: "no", Reason: "Invalid"}},
			result:   admission.Denied, want: `false,"status":{"metadata":{},"status":"Failure","message":"no","reason":"Invalid","code":422}}}`,
		},
		"denied for a reason of its own": {
			response: hook.ReviewResponse{Denial: &hook.Denial{Reason: "TooBlue", Code: 418}},
			result:   admission.Denied, want: `false,"status":{"metadata":{},"status":"Failure","reason":"TooBlue","code":418}}}`,
		},
		"denied with a code": {
			response: hook.ReviewResponse{Denial: &hook.Denial{Message: "no", Code: 422}},
			result:   admission.Denied, want: `false,"status":{"metadata":{},"status":"Failure","message":"no","reason":"Invalid","code":422}}}`,
		},
		"denied by the code of a success": {
			response: hook.ReviewResponse{Denial: &hook.Denial{Message: "no", Code: 200}},
			result:   admission.Denied, want: `false,"status":{"metadata":{},"status":"Failure","message":"no","reason":"Forbidden","code":403}}}`,
		},
		"denied with a change": {
			response: hook.ReviewResponse{Denial: &hook.Denial{Code: 409, Reason: "Conflict"}, Patch: json.RawMessage(`{"b":1}`)},
			result:   admission.Denied, want: `false,"status":{"metadata":{},"status":"Failure","reason":"Conflict","code":409}}}`,
		},
		"changed": {
			response: hook.ReviewResponse{JSONPatch: json.RawMessage(`[{"op":"remove","path":"/a"}]`)},
			result:   admission.Mutated, want: `true,"patch":"W3sib3AiOiJyZW1vdmUiLCJwYXRoIjoiL2EifV0=","patchType":"JSONPatch"}}`,
		},
		"changed into itself": {response: hook.ReviewResponse{Patch: json.RawMessage(`{"a":1}`)}, result: admission.Allowed, want: `true}}`},
		"changed by one that validates": {
			response: hook.ReviewResponse{Patch: json.RawMessage(`{"a":2}`)}, validates: true,
			result: admission.Errored, wantErr: "a validating webhook must not change the object",
		},
		"changed into nonsense": {response: hook.ReviewResponse{Patch: json.RawMessage(`1`)}, result: admission.Errored, wantErr: "changes: patch: must be an object"},
		"with warnings and notes": {
			response: hook.ReviewResponse{Warnings: []string{"a\nb", " "}, AuditAnnotations: map[string]string{"k": "v"}},
			result:   admission.Allowed, want: `true,"auditAnnotations":{"k":"v"},"warnings":["a b"]}}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := &hook.ReviewRequest{UID: "u", Operation: hook.OperationCreate, Object: json.RawMessage(`{"apiVersion":"v1","kind":"Pod","a":1}`)}
			response, result, err := reviewResponse(&admission.Webhook{Mutates: !c.validates}, r, &c.response)
			if result != c.result {
				t.Errorf("result %q, want %q", result, c.result)
			}
			if c.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), c.wantErr) {
					t.Errorf("error %v, want %q", err, c.wantErr)
				}
				return
			}
			must.Succeed(t, err)
			got, err := encode(response)
			if err != nil || string(got) != head+c.want {
				t.Errorf("got  %s, %v\nwant %s", got, err, head+c.want)
			}
		})
	}
}

func TestCleanWarnings(t *testing.T) {
	given := []string{"", "\t", "plain", "two\nlines", "bell\a", "bad \xff", "non\u0085ascii é"}
	got := cleanWarnings(given)
	if want := []string{"plain", "two lines", "bell", "bad \uFFFD", "non ascii é"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	for _, warning := range got {
		if _, err := net.NewWarningHeader(299, "-", warning); err != nil {
			t.Errorf("%q: %v", warning, err)
		}
	}
}

func TestCleanAuditKeys(t *testing.T) {
	got := cleanAudit(map[string]string{
		"plain": "1", "a/b": "2", "with space": "3", "-x-": "4", "é": "5", strings.Repeat("a", 80): "6", "": "7", "a-b": "8",
	})
	want := map[string]string{"plain": "1", "a-b": "2", "with-space": "3", "x": "4", strings.Repeat("a", 63): "6"}
	if !maps.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
