package apiserver

import (
	"io"
	"net/http"
	"net/url"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// request is a request for a kind.
type request struct {
	method      string
	kind        *kind
	namespace   string
	name        string
	subresource string
	contentType string
	accept      string
	rawQuery    string
	query       url.Values
	agent       string
	body        []byte
}

// parse reads a request.
func (s *Server) parse(r *http.Request) (*request, error) {
	req := &request{method: r.Method, accept: r.Header.Get("Accept"), rawQuery: r.URL.RawQuery, agent: r.UserAgent()}
	if err := s.parsePath(req, strings.Split(strings.Trim(r.URL.Path, "/"), "/")); err != nil {
		return nil, err
	}
	req.contentType, _, _ = strings.Cut(r.Header.Get("Content-Type"), ";")
	var err error
	if req.query, err = url.ParseQuery(r.URL.RawQuery); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	if r.Body == nil {
		return req, nil
	}
	req.body, err = io.ReadAll(r.Body)
	return req, err
}

// parsePath reads such as /api/v1/namespaces/default/pods/web/status or /apis/apps/v1/deployments.
func (s *Server) parsePath(req *request, path []string) error {
	var at endpoint
	switch {
	case len(path) > 2 && path[0] == "api":
		at.version, path = path[1], path[2:]
	case len(path) > 3 && path[0] == "apis":
		at.group, at.version, path = path[1], path[2], path[3:]
	default:
		return noSuchPath()
	}
	if len(path) > 2 && path[0] == namespaces.Plural && path[2] != "status" && path[2] != "finalize" {
		req.namespace, path = path[1], path[2:]
	}
	at.plural = path[0]
	if req.kind = s.kinds[at]; req.kind == nil || len(path) > 3 || req.namespace != "" && !req.kind.Namespaced {
		return noSuchPath()
	}
	if len(path) > 1 {
		req.name = path[1]
	}
	if len(path) > 2 {
		req.subresource = path[2]
	}
	if req.kind.Namespaced && req.namespace == "" && (req.name != "" || req.method == http.MethodPost) {
		return noSuchPath()
	}
	return nil
}

func (r *request) groupResource() schema.GroupResource {
	return schema.GroupResource{Group: r.kind.Group, Resource: r.kind.Plural}
}

// patchType returns the type of a patch; "" for other requests.
func (r *request) patchType() types.PatchType {
	if r.method != http.MethodPatch {
		return ""
	}
	return types.PatchType(r.contentType)
}

func (r *request) isApply() bool { return r.patchType() == types.ApplyYAMLPatchType }

func (r *request) dryRun() bool { return len(r.query["dryRun"]) > 0 }

// manager returns the field manager, which is otherwise the first part of the user agent.
func (r *request) manager() string {
	if manager := r.query.Get("fieldManager"); manager != "" {
		return manager
	}
	agent, _, _ := strings.Cut(r.agent, "/")
	return agent
}

func (r *request) isStrict() bool {
	return r.query.Get("fieldValidation") == metav1.FieldValidationStrict
}

// validate checks the options of a write.
func (r *request) validate() error {
	var kind string
	var force *bool
	if r.query.Has("force") {
		forced := r.forced()
		force = &forced
	}
	options := metav1.PatchOptions{
		DryRun: r.query["dryRun"], Force: force, FieldManager: r.query.Get("fieldManager"), FieldValidation: r.query.Get("fieldValidation"),
	}
	errs := metavalidation.ValidatePatchOptions(&options, r.patchType())
	switch r.method {
	case http.MethodPost:
		kind, errs = "CreateOptions", metavalidation.ValidateCreateOptions(&metav1.CreateOptions{
			DryRun: options.DryRun, FieldManager: options.FieldManager, FieldValidation: options.FieldValidation,
		})
	case http.MethodPut:
		kind, errs = "UpdateOptions", metavalidation.ValidateUpdateOptions(&metav1.UpdateOptions{
			DryRun: options.DryRun, FieldManager: options.FieldManager, FieldValidation: options.FieldValidation,
		})
	default:
		kind = "PatchOptions"
	}
	if len(errs) > 0 {
		return apierrors.NewInvalid(schema.GroupKind{Group: metav1.GroupName, Kind: kind}, "", errs)
	}
	return nil
}

func (r *request) forced() bool { return r.query.Get("force") == "true" }
