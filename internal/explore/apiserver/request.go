package apiserver

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/setpoint-dev/setpoint/internal/explore/apiserver/kinds"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// request is a request for a kind.
type request struct {
	method      string
	kind        *kinds.Definition
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

func (r *request) dryRun() bool { return len(r.query["dryRun"]) > 0 }

// fieldManager returns the field manager, which is otherwise the first part of the user agent.
func (r *request) fieldManager() string {
	if manager := r.query.Get("fieldManager"); manager != "" {
		return manager
	}
	agent, _, _ := strings.Cut(r.agent, "/")
	return agent
}

func (r *request) isStrict() bool {
	return r.query.Get("fieldValidation") == metav1.FieldValidationStrict
}

func (r *request) hasSubresource() bool {
	switch r.subresource {
	case "status":
		return r.kind.Status && (r.method == http.MethodPut || r.method == http.MethodPatch)
	case "finalize":
		return r.kind.Kind == namespaces.Kind && r.method == http.MethodPut
	case "binding":
		return r.kind.IsPod() && r.method == http.MethodPost
	}
	return false
}

// decode reads an object of the request.
func (r *request) decode(data []byte) (*unstructured.Unstructured, error) {
	fields, unknown, err := r.kind.Schema.Decode(data)
	if err == nil && len(unknown) > 0 && r.isStrict() {
		err = fmt.Errorf("strict decoding error: %s", strings.Join(unknown, ", "))
	}
	if err != nil {
		return nil, err
	}
	return &unstructured.Unstructured{Object: fields}, nil
}

func (r *request) bodyObject() (*unstructured.Unstructured, error) {
	o, err := r.decode(r.body)
	if err != nil {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("%s in version %q cannot be handled as a %s: %v",
			r.kind.Kind, r.kind.Version, r.kind.Kind, err))
	}
	return o, r.checkNamespace(o)
}

// checkNamespace sets the namespace of the request if the object has none.
func (r *request) checkNamespace(o *unstructured.Unstructured) error {
	switch o.GetNamespace() {
	case r.namespace:
		return nil
	case "":
		o.SetNamespace(r.namespace)
		return nil
	}
	if !r.kind.Namespaced {
		o.SetNamespace("")
		return nil
	}
	return apierrors.NewBadRequest("the namespace of the provided object does not match the namespace sent on the request")
}

func (r *request) checkName(o *unstructured.Unstructured) error {
	if o.GetName() == r.name {
		return nil
	}
	return apierrors.NewBadRequest(fmt.Sprintf("the name of the object (%s) does not match the name on the URL (%s)", o.GetName(), r.name))
}

// checkIdentity is checkNamespace and checkName.
func (r *request) checkIdentity(o *unstructured.Unstructured) error {
	if err := r.checkNamespace(o); err != nil {
		return err
	}
	return r.checkName(o)
}

// badRequest returns an error as one of the client; nil for none.
func badRequest(err error) error {
	if err == nil {
		return nil
	}
	return apierrors.NewBadRequest(err.Error())
}

type response struct {
	code int
	body []byte
}

// noSuchPath returns the error for a path that is not served.
func noSuchPath() error {
	return apierrors.NewGenericServerResponse(http.StatusNotFound, "", schema.GroupResource{}, "", "", 0, true)
}

// failed returns the response to a request that failed. An error without a status is internal, as in
// kube-apiserver.
func failed(err error) response {
	status := metav1.Status{Status: metav1.StatusFailure, Code: http.StatusInternalServerError, Message: err.Error()}
	if known := apierrors.APIStatus(nil); errors.As(err, &known) {
		status = known.Status()
	}
	status.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
	return jsonResponse(int(status.Code), status)
}

func jsonResponse(code int, body any) response {
	data, err := json.Marshal(body)
	if err != nil {
		return failed(err)
	}
	return response{code: code, body: data}
}

func (a response) toHTTP(r *http.Request) *http.Response {
	header := http.Header{"Content-Type": {"application/json"}}
	return &http.Response{
		Status: http.StatusText(a.code), StatusCode: a.code, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: header, Body: io.NopCloser(bytes.NewReader(a.body)), ContentLength: int64(len(a.body)), Request: r,
	}
}

// metadataOnly is the media type of requests for metadata.
const metadataOnly = "as=PartialObjectMetadata"

func (r *request) wantsMetadata() bool { return strings.Contains(r.accept, metadataOnly) }

// view returns an object as the request wants it: in its version, and maybe only metadata.
func (r *request) view(stored *object.Object) []byte {
	data := stored.JSONWithManagedFields()
	if stored.APIVersion() != r.kind.APIVersion() {
		if other, err := stored.With([]byte(`"`+r.kind.APIVersion()+`"`), "apiVersion"); err == nil {
			data = other.JSONWithManagedFields()
		}
	}
	if r.wantsMetadata() {
		return partialMetadata(data)
	}
	return data
}

func partialMetadata(data []byte) []byte {
	var o struct {
		Metadata json.RawMessage `json:"metadata"`
	}
	_ = json.Unmarshal(data, &o) // It is stored, so it is valid.
	return bytes.Join([][]byte{[]byte(`{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":`), o.Metadata,
		[]byte(`}`)}, nil)
}
