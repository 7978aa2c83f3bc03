package main

import (
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

const catsWithScale = `{"object": {
	"metadata": {"name": "cats.example.com", "labels": {"crd-roles.examples.setpoint.dev/wanted": "true"}},
	"spec": {"group": "example.com", "names": {"plural": "cats", "kind": "Cat"}, "versions": [
		{"name": "v1", "subresources": {"status": {}}},
		{"name": "v2", "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.lives"}}}]}}}`

const dogs = `{"object": {
	"metadata": {"name": "dogs.example.com", "labels": {"crd-roles.examples.setpoint.dev/wanted": "true"}},
	"spec": {"group": "example.com", "names": {"plural": "dogs"}, "versions": [{"name": "v1"}]}}}`

func TestRules(t *testing.T) {
	for _, c := range []struct {
		name, request string
		want          []string
	}{
		{"no label", `{"object": {"metadata": {"name": "cats.example.com"}}}`, nil},
		{"another value", strings.Replace(dogs, `"true"`, `"false"`, 1), nil},
		{"no scale", dogs, []string{
			"dogs.example.com-view example.com dogs,dogs/status get,list,watch",
			"dogs.example.com-edit example.com dogs,dogs/status get,list,watch",
			"dogs.example.com-edit example.com dogs create,delete,deletecollection,patch,update",
		}},
		{"scale in one version", catsWithScale, []string{
			"cats.example.com-view example.com cats,cats/scale,cats/status get,list,watch",
			"cats.example.com-edit example.com cats,cats/scale,cats/status get,list,watch",
			"cats.example.com-edit example.com cats,cats/scale create,delete,deletecollection,patch,update",
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var req Request
			if err := json.Unmarshal([]byte(c.request), &req); err != nil {
				t.Fatal(err)
			}
			got, want := strings.Join(lines(sync(&req)), "\n"), strings.Join(c.want, "\n")
			if got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
}

// lines writes each rule of a response on a line.
func lines(resp *Response) []string {
	var all []string
	for _, role := range resp.Attachments {
		for _, rule := range role.Rules {
			all = append(all, strings.Join([]string{
				role.Metadata.Name,
				strings.Join(rule.APIGroups, ","), strings.Join(rule.Resources, ","), strings.Join(rule.Verbs, ","),
			}, " "))
		}
	}
	return all
}

// A response without roles has an empty list: a missing or null list is not the same.
func TestHandleSync(t *testing.T) {
	for _, c := range []struct {
		name, request string
		code          int
		want          string
	}{
		{"no roles", `{"object": {"metadata": {"name": "cats.example.com"}}}`, http.StatusOK, `{"attachments":[]}`},
		{"roles", dogs, http.StatusOK, `"labels":{"rbac.authorization.k8s.io/aggregate-to-view":"true"}`},
		{"no JSON", `{"object": `, http.StatusBadRequest, "not a sync request: unexpected EOF"},
	} {
		t.Run(c.name, func(t *testing.T) {
			recorder := httptest.NewRecorder()
			handleSync(slog.New(slog.DiscardHandler))(recorder, httptest.NewRequest(http.MethodPost, "/sync", strings.NewReader(c.request)))
			body, err := io.ReadAll(recorder.Result().Body)
			if err != nil {
				t.Fatal(err)
			}
			if recorder.Code != c.code || !strings.Contains(string(body), c.want) {
				t.Errorf("got %d %s, want %d with %s", recorder.Code, body, c.code, c.want)
			}
		})
	}
}
