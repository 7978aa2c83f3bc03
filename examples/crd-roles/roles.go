package main

// The label of a CustomResourceDefinition that requests roles, and the labels that
// aggregate a role into the roles view, edit and admin of every cluster.
const (
	wanted        = "crd-roles.examples.setpoint.dev/wanted"
	aggregateView = "rbac.authorization.k8s.io/aggregate-to-view"
	aggregateEdit = "rbac.authorization.k8s.io/aggregate-to-edit"
)

// sync returns the desired ClusterRoles of a CustomResourceDefinition.
func sync(req *Request) *Response {
	crd, resp := &req.Object, &Response{Attachments: []ClusterRole{}}
	if crd.Metadata.Labels[wanted] != "true" {
		return resp
	}
	view := allow(&crd.Spec, "get", "list", "watch")
	edit := allow(&crd.Spec, "create", "delete", "deletecollection", "patch", "update")
	view.Resources = append(view.Resources, crd.Spec.Names.Plural+"/status")
	resp.Attachments = append(resp.Attachments,
		role(crd.Metadata.Name+"-view", aggregateView, view),
		role(crd.Metadata.Name+"-edit", aggregateEdit, view, edit))
	return resp
}

// allow allows verbs on objects of the kind and their scale.
func allow(kind *Definition, verbs ...string) Rule {
	resources := []string{kind.Names.Plural}
	for _, version := range kind.Versions {
		if version.Subresources.Scale != nil {
			resources = append(resources, kind.Names.Plural+"/scale")
			break
		}
	}
	return Rule{APIGroups: []string{kind.Group}, Resources: resources, Verbs: verbs}
}

func role(name, aggregate string, rules ...Rule) ClusterRole {
	return ClusterRole{
		APIVersion: "rbac.authorization.k8s.io/v1",
		Kind:       "ClusterRole",
		Metadata:   Metadata{Name: name, Labels: map[string]string{aggregate: "true"}},
		Rules:      rules,
	}
}

// Request has the fields of a sync request that sync needs.
type Request struct {
	Object struct {
		Metadata Metadata   `json:"metadata"`
		Spec     Definition `json:"spec"`
	} `json:"object"`
}

// Definition is the spec of a CustomResourceDefinition.
type Definition struct {
	Group string `json:"group"`
	Names struct {
		Plural string `json:"plural"`
	} `json:"names"`
	Versions []struct {
		Subresources struct {
			Scale *struct{} `json:"scale"`
		} `json:"subresources"`
	} `json:"versions"`
}

// Response is the response of a sync hook.
type Response struct {
	Attachments []ClusterRole `json:"attachments"`
}

// ClusterRole is a ClusterRole of rbac.authorization.k8s.io/v1.
type ClusterRole struct {
	APIVersion string   `json:"apiVersion"`
	Kind       string   `json:"kind"`
	Metadata   Metadata `json:"metadata"`
	Rules      []Rule   `json:"rules"`
}

// Rule allows verbs on resources.
type Rule struct {
	APIGroups []string `json:"apiGroups"`
	Resources []string `json:"resources"`
	Verbs     []string `json:"verbs"`
}

// Metadata is the name and the labels of an object.
type Metadata struct {
	Name   string            `json:"name"`
	Labels map[string]string `json:"labels,omitempty"`
}
