package admission

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// The one form of reviews that is spoken.
const (
	reviewVersion = "admission.k8s.io/v1"
	reviewKind    = "AdmissionReview"
)

// decodeReview decodes an AdmissionReview. Its objects point into body.
func decodeReview(body []byte) (*hook.ReviewRequest, error) {
	body, err := compactJSON(body)
	if err != nil {
		return nil, err
	}
	var apiVersion, kind string
	var request []byte
	err = object.Members(body, func(quoted, value []byte) error {
		switch string(object.Unquoted(quoted)) {
		case "apiVersion":
			return readText("apiVersion", value, &apiVersion)
		case "kind":
			return readText("kind", value, &kind)
		case "request":
			request = value
		}
		return nil
	})
	switch {
	case err != nil:
		return nil, err
	case kind != reviewKind || apiVersion != reviewVersion:
		return nil, fmt.Errorf("must be an %s of %s, not kind %q of %q", reviewKind, reviewVersion, kind, apiVersion)
	case absent(request):
		return nil, errors.New("request: required")
	}
	return decodeRequest(request)
}

// compactJSON removes whitespace between values, which API servers do not send.
func compactJSON(body []byte) ([]byte, error) {
	body = bytes.TrimSpace(body)
	if !bytes.ContainsAny(body, "\n\t") && !bytes.Contains(body, []byte(`": `)) {
		return body, nil
	}
	var out bytes.Buffer
	out.Grow(len(body))
	if err := json.Compact(&out, body); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

func decodeRequest(request []byte) (*hook.ReviewRequest, error) {
	var r hook.ReviewRequest
	err := object.Members(request, func(quoted, value []byte) error {
		return readRequest(&r, string(object.Unquoted(quoted)), value)
	})
	if err == nil {
		err = checkReview(&r)
	}
	if err != nil {
		return nil, fmt.Errorf("request: %w", err)
	}
	return &r, nil
}

// readRequest decodes one member of a request.
func readRequest(r *hook.ReviewRequest, name string, value []byte) error {
	switch name {
	case "uid":
		return readText(name, value, &r.UID)
	case "operation":
		return readText(name, value, (*string)(&r.Operation))
	case "kind":
		return readKind(r, value)
	case "resource":
		return readResource(r, value)
	case "subResource":
		return readText(name, value, &r.Subresource)
	case "name":
		return readText(name, value, &r.Name)
	case "namespace":
		return readText(name, value, &r.Namespace)
	case "object":
		return readObject(name, value, &r.Object)
	case "oldObject":
		return readObject(name, value, &r.OldObject)
	case "userInfo":
		return readUser(r, value)
	case "dryRun":
		r.DryRun = kindOf(value) == 't'
	}
	return nil
}

func readText(name string, value []byte, into *string) error {
	switch kindOf(value) {
	case '"':
		*into = string(object.Unquoted(value))
		return nil
	case 'n':
		return nil
	}
	return errors.New(name + ": must be a string")
}

func readObject(name string, value []byte, into *json.RawMessage) error {
	switch kindOf(value) {
	case '{':
		*into = slices.Clip(value)
		return nil
	case 'n':
		return nil
	}
	return errors.New(name + ": must be an object")
}

func readKind(r *hook.ReviewRequest, value []byte) error {
	f, err := fieldsOf(value)
	if err != nil {
		return fmt.Errorf("kind: %w", err)
	}
	var group, version string
	err = errors.Join(
		readMember(&f, "kind", "group", &group),
		readMember(&f, "kind", "version", &version),
		readMember(&f, "kind", "kind", &r.Kind),
	)
	r.APIVersion = joinAPIVersion(group, version)
	return err
}

func readResource(r *hook.ReviewRequest, value []byte) error {
	f, err := fieldsOf(value)
	if err != nil {
		return fmt.Errorf("resource: %w", err)
	}
	return readMember(&f, "resource", "resource", &r.Resource)
}

// readMember decodes an optional string.
func readMember(f *fields, of, name string, into *string) error {
	value := f.value(name)
	if value == nil {
		return nil
	}
	return readText(of+"."+name, value, into)
}

func joinAPIVersion(group, version string) string {
	if group == "" {
		return version
	}
	return group + "/" + version
}

func readUser(r *hook.ReviewRequest, value []byte) error {
	if err := json.Unmarshal(value, &r.User); err != nil {
		return fmt.Errorf("userInfo: %w", err)
	}
	return nil
}

// checkReview checks the fields that a response needs.
func checkReview(r *hook.ReviewRequest) error {
	switch {
	case r.UID == "":
		return errors.New("uid: required")
	case r.Kind == "" || r.APIVersion == "":
		return errors.New("kind: required, with version and kind")
	case r.Resource == "":
		return errors.New("resource: required, with version and resource")
	}
	switch r.Operation {
	case hook.OperationDelete, hook.OperationConnect:
		return nil
	case hook.OperationUpdate:
		if r.OldObject == nil {
			return errors.New("oldObject: required for UPDATE")
		}
		fallthrough
	case hook.OperationCreate:
		if r.Object == nil {
			return fmt.Errorf("object: required for %s", r.Operation)
		}
		return nil
	}
	return fmt.Errorf("operation: must be CREATE, UPDATE, DELETE or CONNECT, is %q", r.Operation)
}
