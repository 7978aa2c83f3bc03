package apiserver

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// response is the response to a request.
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

// succeeded returns the response to a write.
func succeeded(code int, stored []byte) response { return response{code: code, body: stored} }

func (a response) toHTTP(r *http.Request) *http.Response {
	header := http.Header{"Content-Type": {"application/json"}}
	return &http.Response{
		Status: http.StatusText(a.code), StatusCode: a.code, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: header, Body: io.NopCloser(bytes.NewReader(a.body)), ContentLength: int64(len(a.body)), Request: r,
	}
}

// metadataOnly is the media type of requests for metadata.
const metadataOnly = "as=PartialObjectMetadata"

// wantsMetadata reports whether a request is for metadata only.
func (r *request) wantsMetadata() bool { return strings.Contains(r.accept, metadataOnly) }

// view returns an object as the request wants it: in its version, and maybe only metadata.
func (r *request) view(stored *Stored) []byte {
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
