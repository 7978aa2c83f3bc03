package server

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"

	"github.com/setpoint-dev/setpoint/hook"
)

const wholeReview = `{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{
	"uid":"705ab4f5","kind":{"group":"apps","version":"v1","kind":"Deployment"},
	"resource":{"group":"apps","version":"v1","resource":"deployments"},"subResource":"scale",
	"requestKind":{"group":"apps","version":"v1beta1","kind":"Deployment"},
	"name":"web","namespace":"shop","operation":"UPDATE",
	"userInfo":{"username":"ann","uid":"7","groups":["devs"],"extra":{"scopes":["a","b"]}},
	"object":{"a": "é\n\u00e9: , x"},"oldObject":{"a":1},"dryRun":true,"options":{"kind":"UpdateOptions"}}}
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
	if err != nil || !reflect.DeepEqual(got.hookRequest(), want) {
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
			if err != nil || !reflect.DeepEqual(*got.hookRequest(), c.want) {
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
		"\n":                                  "unexpected end",
		"null":                                "must be an AdmissionReview",
		"[]":                                  "must not be a JSON array",
		"hello":                               "invalid character",
		wholeReview[:200]:                     "unexpected",
		strings.TrimSpace(wholeReview) + "{}": "after top-level value",
		string(reviewOf(`"operation":"DELETE"`)) + "{}": "after top-level value",
		`{}`: `must be an AdmissionReview of admission.k8s.io/v1, not kind "" of ""`,
		`{"apiVersion":"admission.k8s.io/v1beta1","kind":"AdmissionReview","request":{}}`: `of "admission.k8s.io/v1beta1"`,
		`{"apiVersion":"admission.k8s.io/v1","kind":"Pod","request":{}}`:                  `not kind "Pod"`,
		`{"apiVersion":1,"kind":"AdmissionReview"}`:                                       "apiVersion: must not be a JSON number",
		head + `"request":null}`:                                                    "request: required",
		head + `"response":{"uid":"u"}}`:                                            "request: required",
		head + `"request":[]}`:                                                      "request: must not be a JSON array",
		head + `"request":{}}`:                                                      "request: uid: required",
		head + `"request":{"uid":7}}`:                                               "request.uid: must not be a JSON number",
		head + `"request":{"uid":"u"}}`:                                             "request: kind: required",
		head + `"request":{"uid":"u","kind":"Pod"}}`:                                "request.kind: must not be a JSON string",
		head + `"request":{"uid":"u","kind":{"version":"v1","kind":[]}}}`:           "request.kind.kind: must not be a JSON array",
		head + `"request":{"uid":"u","kind":{"version":"v1","kind":"Pod"}}}`:        "request: resource: required",
		string(reviewOf(`"name":""`)):                                               `operation: must be CREATE, UPDATE, DELETE or CONNECT, is ""`,
		string(reviewOf(`"operation":"PATCH"`)):                                     `operation: must be CREATE, UPDATE, DELETE or CONNECT, is "PATCH"`,
		string(reviewOf(`"operation":"CREATE"`)):                                    "object: required for CREATE",
		string(reviewOf(`"operation":"CREATE","object":null`)):                      "object: required for CREATE",
		string(reviewOf(`"operation":"CREATE","object":"e30="`)):                    "object: must be an object",
		string(reviewOf(`"operation":"UPDATE","object":{}`)):                        "oldObject: required for UPDATE",
		string(reviewOf(`"operation":"UPDATE","oldObject":{}`)):                     "object: required for UPDATE",
		string(reviewOf(`"operation":"DELETE","userInfo":"ann"`)):                   "request.userInfo: must not be a JSON string",
		string(reviewOf(`"operation":"DELETE","oldObject":{"a":"` + "\xff" + `"}`)): "invalid UTF-8",
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

// FuzzDecodeReview: nothing is read otherwise than Kubernetes' own type reads it.
func FuzzDecodeReview(f *testing.F) {
	f.Add([]byte(wholeReview))
	for body := range malformedReviews() {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		r, err := decodeReview(body)
		if err != nil {
			return
		}
		if r.UID == "" || r.Operation == "" || r.Object != nil && !json.Valid(r.Object) || r.OldObject != nil && !json.Valid(r.OldObject) {
			t.Errorf("%q: %+v", body, r)
		}
		var theirs admissionv1.AdmissionReview
		if err := json.Unmarshal(body, &theirs); err != nil {
			return // Its members are typed where ours are not looked at.
		}
		// Names in another case are the same to it, and not to us; given twice, what
		// it makes of them is its own.
		if theirs.Request == nil || strings.Count(strings.ToLower(string(body)), `"uid"`) > 1 {
			return
		}
		if string(theirs.Request.UID) != r.UID {
			t.Errorf("%q: uid %q, want %q", body, r.UID, theirs.Request.UID)
		}
	})
}
