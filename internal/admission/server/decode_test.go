package server

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/hook"
)

const wholeReview = `{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{
	"uid":"705ab4f5","kind":{"group":"apps","version":"v1","kind":"Deployment"},
	"resource":{"group":"apps","version":"v1","resource":"deployments"},"subResource":"scale",
	"requestKind":{"group":"apps","version":"v1beta1","kind":"Deployment"},
	"name":"web","namespace":"shop","operation":"UPDATE",
	"userInfo":{"username":"ann","uid":"7","groups":["devs"],"extra":{"scopes":["a","b"]}},
	"object":{"a":"é\n\u00e9: , x"},"oldObject":{"a":1},"dryRun":true,"options":{"kind":"UpdateOptions"}}}
`

func TestDecodeReview(t *testing.T) {
	want := &hook.ReviewRequest{
		UID: "705ab4f5", Operation: hook.OperationUpdate,
		APIVersion: "apps/v1", Kind: "Deployment", Resource: "deployments", Subresource: "scale",
		Namespace: "shop", Name: "web",
		Object: json.RawMessage(`{"a":"é\n\u00e9: , x"}`), OldObject: json.RawMessage(`{"a":1}`),
		User:   hook.User{Name: "ann", UID: "7", Groups: []string{"devs"}, Extra: map[string][]string{"scopes": {"a", "b"}}},
		DryRun: true,
	}
	got, err := decodeReview([]byte(wholeReview))
	if err != nil || !reflect.DeepEqual(hookRequest(got), want) {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestDecodeReviewOf(t *testing.T) {
	for name, c := range map[string]struct {
		request string
		want    hook.ReviewRequest
	}{
		"a deletion": {
			`"operation":"DELETE","object":null,"oldObject":{"a":1},"dryRun":false`,
			hook.ReviewRequest{Operation: hook.OperationDelete, OldObject: json.RawMessage(`{"a":1}`)},
		},
		"a creation": {
			`"operation":"CREATE","object":{"a":1},"oldObject":null,"dryRun":null,"userInfo":{}`,
			hook.ReviewRequest{Operation: hook.OperationCreate, Object: json.RawMessage(`{"a":1}`)},
		},
		"a connection": {
			`"operation":"CONNECT","subResource":"exec","object":{"container":"c"}`,
			hook.ReviewRequest{Operation: hook.OperationConnect, Subresource: "exec", Object: json.RawMessage(`{"container":"c"}`)},
		},
	} {
		t.Run(name, func(t *testing.T) {
			c.want.UID, c.want.APIVersion, c.want.Kind, c.want.Resource = "u", "v1", "Pod", "pods"
			got, err := decodeReview(reviewOf(c.request))
			if err != nil || !reflect.DeepEqual(*hookRequest(got), c.want) {
				t.Errorf("%+v, %v", got, err)
			}
		})
	}
}

// reviewOf is a review of a pod with some more members in its request.
func reviewOf(members string) []byte {
	return []byte(`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u",` +
		`"kind":{"group":"","version":"v1","kind":"Pod"},"resource":{"group":"","version":"v1","resource":"pods"},` + members + `}}`)
}

// malformedReviews are refused, with a word of what is wrong.
func malformedReviews() map[string]string {
	const head = `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview",`
	return map[string]string{
		"":                                    "unexpected end",
		"null":                                "must be an AdmissionReview",
		"[]":                                  "cannot unmarshal array",
		wholeReview[:200]:                     "unexpected",
		strings.TrimSpace(wholeReview) + "{}": "after top-level value",
		`{}`:                                  `must be an AdmissionReview of admission.k8s.io/v1 with a request, not kind "" of ""`,
		`{"apiVersion":"admission.k8s.io/v1beta1","kind":"AdmissionReview","request":{}}`: `of "admission.k8s.io/v1beta1"`,
		`{"apiVersion":"admission.k8s.io/v1","kind":"Pod","request":{}}`:                  `not kind "Pod"`,
		head + `"request":null}`:      "with a request",
		head + `"request":{}}`:        "with a request",
		head + `"request":{"uid":7}}`: "cannot unmarshal number",
	}
}

func TestDecodeMalformedReviews(t *testing.T) {
	for body, want := range malformedReviews() {
		r, err := decodeReview([]byte(body))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %+v, %v; want %q", body, r, err, want)
		}
	}
}
