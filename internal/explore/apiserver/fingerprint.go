package apiserver

import (
	"crypto/sha256"
	"fmt"
	"hash"
	"net/http"
	"strings"

	"github.com/setpoint-dev/setpoint/internal/object"
)

// uidMarker is the middle of each UID that this server makes, by which they are found in objects.
const uidMarker = "-4e70-8e70-"

// The parts of a UID: 8 and 4 digits of a hash of the name, the marker, and 12 digits that count the objects that
// had the name.
const (
	uidHead = 13
	uidTail = 12
	uidSize = uidHead + len(uidMarker) + uidTail
)

// newUID returns the UID of an object. It derives from the name alone, so that the order in which objects with
// different names are created makes no difference.
func newUID(k *kind, namespace, name string, born uint64) string {
	sum := sha256.Sum256([]byte(k.Group + "/" + k.Kind + "/" + namespace + "/" + name))
	return fmt.Sprintf("%x-%x%s%012x", sum[:4], sum[4:6], uidMarker, born)
}

// UIDsIn returns the UIDs that this server made in an object, in order of appearance, among them its own. A search compares
// them by rank.
func UIDsIn(o *object.Object) (uids []string) {
	text := string(o.JSON())
	for {
		at := strings.Index(text, uidMarker) - uidHead
		if at < 0 || len(text) < at+uidSize {
			return uids
		}
		uids = append(uids, text[at:at+uidSize])
		text = text[at+uidSize:]
	}
}

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
