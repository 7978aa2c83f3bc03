package apiserver

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"hash"

	"github.com/setpoint-dev/setpoint/internal/object"
)

// Fingerprint is a digest of an object without its resource version, in which UIDs that this server made are left
// open: two objects are equal if their hashes are, and their UIDs are those of the same objects, one by one. A
// search compares them by rank.
type Fingerprint struct {
	Hash [16]byte
	// UIDs are the UIDs in the object in order of appearance, among them its own.
	UIDs []string
}

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

// NewFingerprint returns the fingerprint of an object that this server stored, without its managed fields.
func NewFingerprint(o *object.Object) Fingerprint {
	return fingerprintOf(o.JSON())
}

func fingerprintOf(data []byte) Fingerprint {
	p := printer{sum: sha256.New()}
	p.object(data)
	f := Fingerprint{UIDs: p.uids}
	copy(f.Hash[:], p.sum.Sum(nil))
	return f
}

// printer makes a fingerprint.
type printer struct {
	sum  hash.Hash
	uids []string
}

func (p *printer) object(data []byte) {
	_ = object.Members(data, func(name, value []byte) error { // A stored object is valid JSON.
		p.sum.Write(name)
		if string(name) == `"metadata"` {
			return p.metadata(value)
		}
		p.text(value)
		return nil
	})
}

// metadata omits the resource version.
func (p *printer) metadata(data []byte) error {
	return object.Members(data, func(name, value []byte) error {
		if string(name) != `"resourceVersion"` {
			p.sum.Write(name)
			p.text(value)
		}
		return nil
	})
}

// text adds a text, and cuts the UIDs out of it.
func (p *printer) text(text []byte) {
	for {
		at := bytes.Index(text, []byte(uidMarker)) - uidHead
		if at < 0 || len(text) < at+uidSize {
			break
		}
		p.sum.Write(text[:at])
		p.uids = append(p.uids, string(text[at:at+uidSize]))
		text = text[at+uidSize:]
	}
	p.sum.Write(text)
}
