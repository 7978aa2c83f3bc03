package apiserver

import (
	"crypto/sha256"
	"fmt"
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
func newUID(k object.GroupKind, namespace, name string, born uint64) string {
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
