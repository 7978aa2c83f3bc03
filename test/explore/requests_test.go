package explore

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"

	"github.com/setpoint-dev/setpoint/internal/explore/apiserver/apiservertest"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// The kinds that are compared. None of them has a controller in the control plane.
var (
	configMaps = apiservertest.ConfigMaps
	secrets    = object.Resource{Version: "v1", Plural: "secrets", Kind: "Secret", Namespaced: true}
	roles      = object.Resource{Group: "rbac.authorization.k8s.io", Version: "v1", Plural: "roles", Kind: "Role", Namespaced: true}
	policies   = object.Resource{Group: "networking.k8s.io", Version: "v1", Plural: "networkpolicies", Kind: "NetworkPolicy", Namespaced: true}
	templates  = object.Resource{Version: "v1", Plural: "podtemplates", Kind: "PodTemplate", Namespaced: true}
	widgets    = apiservertest.Widgets
	compared   = []object.Resource{configMaps, secrets, roles, policies, templates, widgets}
)

// content are the parts that random objects of a kind consist of: members beside the metadata, as JSON. Some are
// wrong.
var content = map[string][]string{
	"ConfigMap": {`"data":{"a":"1"}`, `"data":{"a":"2","b":"3"}`, `"data":{}`, `"immutable":true`, `"data":{"a":5}`, `"unknown":{"x":1}`, `"binaryData":{"c":"YQ=="}`, `"data":null`},
	"Secret":    {`"data":{"a":"YQ=="}`, `"data":{"a":"Yg==","b":"YQ=="}`, `"type":"Opaque"`, `"type":"other"`, `"stringData":{"x":"y"}`},
	"Role": {`"rules":[{"apiGroups":[""],"resources":["pods"],"verbs":["get"]}]`, `"rules":[]`, `"rules":null`,
		`"rules":[{"apiGroups":["apps"],"resources":["deployments"],"verbs":["list","get"]}]`},
	"NetworkPolicy": {`"spec":{"podSelector":{},"policyTypes":["Ingress"]}`, `"spec":{"podSelector":{"matchLabels":{"a":"b"}},"policyTypes":["Ingress","Egress"]}`,
		`"spec":{"podSelector":{"matchLabels":{"a":"c"}},"policyTypes":["Ingress"],"ingress":[{"ports":[{"port":80,"protocol":"TCP"}]}]}`},
	"PodTemplate": {`"template":{"spec":{"containers":[{"name":"a","image":"x"}]}}`, `"template":{"spec":{"containers":[{"name":"a","image":"y","ports":[{"containerPort":80,"protocol":"TCP"}]},{"name":"b","image":"z"}]}}`,
		`"template":{"metadata":{"labels":{"l":"1"}},"spec":{"containers":[{"name":"b","image":"x","env":[{"name":"E","value":"1"}]}]}}`},
	"Widget": {`"spec":{"size":3}`, `"spec":{"size":11}`, `"spec":{"color":"red"}`, `"spec":{"color":"blue","size":2}`, `"spec":{"color":"green"}`, `"spec":{}`,
		`"spec":{"parts":[{"name":"one","value":"1"}]}`, `"spec":{"parts":[{"name":"one"},{"name":"two","value":"2"}]}`, `"spec":{"parts":[{"name":"one"},{"name":"one"}]}`,
		`"spec":{"names":["x","z"]}`, `"spec":{"names":["z"],"plain":["1","2"]}`, `"spec":{"plain":["1","2","3","4"]}`, `"spec":{"free":{"deep":{"a":1}}}`,
		`"spec":{"free":{"deep":{"b":[1,2]}},"text":null}`, `"spec":{"unknown":1}`, `"spec":{"size":"big"}`, `"status":{"ready":true}`, `"status":{"count":-1}`,
		`"status":{"ready":false,"count":2}`, `"status":{}`, `"status":{"other":1}`},
}

// metadata are the parts of random metadata. @uid, @rv and @old stand for the UID, the resource version and an old
// resource version of the object, and @owner for the UID of another object.
var metadata = []string{
	`"labels":{"a":"1"}`, `"labels":{"a":"2","b":"1"}`, `"labels":{}`, `"labels":null`, `"labels":{"bad key!":"1"}`, `"annotations":{"x":"1"}`, `"annotations":{"x":"2","y":"3"}`,
	`"finalizers":["example.com/a"]`, `"finalizers":["example.com/a","example.com/b"]`, `"finalizers":[]`, `"finalizers":null`, `"finalizers":["example.com/c"]`, `"finalizers":["bad name"]`,
	`"uid":"@uid"`, `"uid":"other"`, `"resourceVersion":"@rv"`, `"resourceVersion":"@rv"`, `"resourceVersion":"@rv"`, `"resourceVersion":"@old"`, `"resourceVersion":null`,
	`"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"owner","uid":"@owner"}]`,
	`"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"owner","uid":"@owner","controller":true,"blockOwnerDeletion":true}]`,
	`"ownerReferences":[]`, `"ownerReferences":null`, `"generation":7`, `"creationTimestamp":null`, `"deletionTimestamp":"2020-01-01T00:00:00Z"`,
	`"deletionGracePeriodSeconds":0`, `"unknown":"x"`, `"generateName":"w-"`,
}

// jsonPatches are random JSON patches.
var jsonPatches = []string{
	`[{"op":"replace","path":"/metadata/labels","value":{"p":"1"}}]`, `[{"op":"remove","path":"/metadata/labels"}]`,
	`[{"op":"add","path":"/metadata/annotations","value":{"q":"1"}},{"op":"replace","path":"/metadata/resourceVersion","value":"@rv"}]`,
	`[{"op":"test","path":"/metadata/name","value":"other"}]`, `[{"op":"replace","path":"/metadata/managedFields","value":[]}]`,
	`[{"op":"replace","path":"/metadata/managedFields","value":[{}]}]`, `[{"op":"remove","path":"/metadata/finalizers"}]`, `{"op":"x"}`,
	`[{"op":"replace","path":"/metadata/resourceVersion","value":"@old"}]`, `[{"op":"add","path":"/metadata/finalizers/-","value":"example.com/d"}]`,
}

// deletions are random bodies of deletions.
var deletions = []string{
	``, ``, `{}`, `{"preconditions":{"uid":"@uid"},"propagationPolicy":"Background"}`, `{"preconditions":{"uid":"other"}}`,
	`{"preconditions":{"resourceVersion":"@rv"}}`, `{"preconditions":{"resourceVersion":"@old"}}`, `{"dryRun":["All"]}`,
	`{"propagationPolicy":"Other"}`, `{"gracePeriodSeconds":0}`, `{"dryRun":["Some"]}`,
}

// generator makes random requests for objects with a few names.
type generator struct {
	*rand.Rand
	namespace string
}

func (g *generator) pick(from []string) string { return from[g.IntN(len(from))] }

// some returns a few parts.
func (g *generator) some(from []string, most int) string {
	byName := map[string]string{}
	for range g.IntN(most + 1) {
		part := g.pick(from)
		name, _, _ := strings.Cut(part, ":")
		byName[name] = part
	}
	var parts []string
	for _, part := range from {
		name, _, _ := strings.Cut(part, ":")
		if byName[name] == part {
			parts = append(parts, part)
			delete(byName, name)
		}
	}
	return strings.Join(parts, ",")
}

// next returns a random request.
func (g *generator) next() call {
	kind := compared[g.IntN(len(compared))]
	if g.IntN(3) == 0 {
		kind = widgets
	}
	name := g.pick([]string{"a", "b"})
	c := call{query: url.Values{}, path: kind.Path(g.namespace, name), contentType: "application/json"}
	manager := g.pick([]string{"one", "two", ""})
	if manager != "" {
		c.query.Set("fieldManager", manager)
	}
	if g.IntN(8) == 0 {
		c.query.Set("dryRun", "All")
	}
	if g.IntN(4) == 0 {
		c.query.Set("fieldValidation", g.pick([]string{"Strict", "Ignore", "Warn"}))
	}
	if kind.Status && g.IntN(3) == 0 || g.IntN(40) == 0 {
		c.path += "/status"
	}
	switch g.IntN(12) {
	case 0, 1, 2:
		c.method, c.path = http.MethodPost, kind.Path(g.namespace, "")
		c.body = g.object(kind, name, 1)
	case 3, 4:
		c.method, c.body = http.MethodPut, g.object(kind, name, 4)
	case 5, 6:
		c.method, c.contentType, c.body = http.MethodPatch, "application/merge-patch+json", g.patch(kind)
	case 7:
		c.method, c.contentType, c.body = http.MethodPatch, "application/json-patch+json", g.pick(jsonPatches)
	case 8, 9:
		c.method, c.contentType, c.body = http.MethodPatch, "application/apply-patch+yaml", g.object(kind, name, 1)
		c.query.Set("fieldManager", cmp.Or(manager, "one"))
		if g.IntN(2) == 0 {
			c.query.Set("force", "true")
		}
	case 10:
		c.method = http.MethodGet
		c.accept = g.pick([]string{"", ";as=PartialObjectMetadata;g=meta.k8s.io;v=v1"})
	default:
		c.method, c.body, c.path = http.MethodDelete, g.pick(deletions), kind.Path(g.namespace, name)
	}
	return c
}

// object returns a random object. One in twenty has another name or kind.
func (g *generator) object(kind object.Resource, name string, most int) string {
	apiVersion, kindName := kind.APIVersion(), kind.Kind
	switch g.IntN(60) {
	case 0:
		name = "other"
	case 1:
		kindName = "Other"
	case 2:
		apiVersion = "other/v1"
	}
	meta := g.some(metadata, most)
	if meta != "" {
		meta = "," + meta
	}
	body := g.some(content[kind.Kind], 2)
	if body != "" {
		body = "," + body
	}
	return fmt.Sprintf(`{"apiVersion":%q,"kind":%q,"metadata":{"name":%q%s}%s}`, apiVersion, kindName, name, meta, body)
}

func (g *generator) patch(kind object.Resource) string {
	parts := []string{}
	if meta := g.some(metadata, 2); meta != "" {
		parts = append(parts, `"metadata":{`+meta+`}`)
	}
	if body := g.some(content[kind.Kind], 1); body != "" {
		parts = append(parts, body)
	}
	return "{" + strings.Join(parts, ",") + "}"
}
