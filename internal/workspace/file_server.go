package workspace

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/setpoint-dev/setpoint/internal/object"
)

// fileServer responds to the watches of Secrets and ConfigMaps that connections to hooks and code need, with
// the objects of the files. It implements http.RoundTripper.
type fileServer struct{ objects []*object.Object }

// RoundTrip streams the objects at the path of a request, then nothing until the request ends.
func (f *fileServer) RoundTrip(r *http.Request) (*http.Response, error) {
	reader, writer := io.Pipe()
	go func() {
		for _, o := range f.objects {
			if f.matches(o, r) {
				fmt.Fprintf(writer, `{"type":"ADDED","object":%s}`+"\n", stored(o))
			}
		}
		fmt.Fprintln(writer, `{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"1","annotations":{"k8s.io/initial-events-end":"true"}}}}`)
		<-r.Context().Done()
		writer.CloseWithError(r.Context().Err())
	}()
	header := http.Header{"Content-Type": {"application/json"}}
	return &http.Response{StatusCode: http.StatusOK, Status: "200 OK", Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: header,
		Body: reader, ContentLength: -1, Request: r}, nil
}

func (*fileServer) matches(o *object.Object, r *http.Request) bool {
	for _, resource := range []object.Resource{object.Secrets, object.ConfigMaps} {
		if o.GroupKind() != resource.GroupKind() {
			continue
		}
		name, one := strings.CutPrefix(r.URL.Query().Get("fieldSelector"), "metadata.name=")
		return r.URL.Path == resource.Path(o.Namespace(), "") && (!one || name == o.Name())
	}
	return false
}

// stored returns an object as the API server stores it: with a version, and without stringData.
func stored(o *object.Object) []byte {
	edits := []object.Edit{{Path: []string{"metadata", "resourceVersion"}, Value: []byte(`"1"`)}}
	var secret corev1.Secret
	if plain := o.Field("stringData"); plain != nil && json.Unmarshal(o.JSON(), &secret) == nil {
		data := map[string][]byte{}
		maps.Copy(data, secret.Data)
		for key, value := range secret.StringData {
			data[key] = []byte(value)
		}
		encoded, _ := json.Marshal(data) //nolint:errchkjson // Bytes can always be encoded.
		edits = append(edits, object.Edit{Path: []string{"data"}, Value: encoded}, object.Edit{Path: []string{"stringData"}})
	}
	edited, err := o.Edited(edits...)
	if err != nil {
		return o.JSON()
	}
	return edited.JSON()
}
