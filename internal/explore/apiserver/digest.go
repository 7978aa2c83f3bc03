package apiserver

import (
	"crypto/sha256"
	"fmt"
	"hash"
	"net/http"

	"github.com/setpoint-dev/setpoint/internal/object"
)

// digest returns a digest of the request in which a resource version only says whether it is the live one: what a
// write leads to does not depend on the number.
func (w *write) digest() (digest [16]byte) {
	sum := sha256.New()
	for _, text := range []string{
		w.method, w.kind.Group, w.kind.Version, w.kind.Plural, w.namespace, w.name, w.subresource, w.contentType, w.rawQuery, w.agent,
	} {
		fmt.Fprintf(sum, "%s\x00", text)
	}
	w.addBody(sum)
	copy(digest[:], sum.Sum(nil))
	return digest
}

// addBody adds the body.
func (w *write) addBody(sum hash.Hash) {
	parent := `"metadata"`
	if w.method == http.MethodDelete {
		parent = `"preconditions"`
	}
	err := object.Members(w.body, func(name, value []byte) error {
		sum.Write(name)
		if string(name) == parent && len(value) > 0 && value[0] == '{' {
			return w.addVersioned(sum, value)
		}
		sum.Write(value)
		return nil
	})
	if err != nil {
		// It is no object, such as a JSON patch.
		sum.Write(w.body)
	}
}

// addVersioned adds an object that may have a resource version.
func (w *write) addVersioned(sum hash.Hash, data []byte) error {
	return object.Members(data, func(name, value []byte) error {
		sum.Write(name)
		if string(name) == `"resourceVersion"` && w.live != nil {
			if string(value) == `"`+w.live.ResourceVersion()+`"` {
				sum.Write([]byte("live"))
				return nil
			}
			// Messages have both.
			fmt.Fprintf(sum, "not %s but ", w.live.ResourceVersion())
		}
		sum.Write(value)
		return nil
	})
}
