package loop

import (
	"bytes"
	"hash/maphash"
	"slices"
	"strconv"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// digests identify a request: with the resource versions in its objects, and without.
type digests struct {
	exact, versionless uint64
	// intent identifies what users want in it: the spec of its object, and related objects.
	intent func() uint64
}

// with returns the digests of a request together with a text.
func (d digests) with(text []byte) digests {
	hash := maphash.Bytes(seed, text)
	return digests{maphash.Comparable(seed, [2]uint64{d.exact, hash}), maphash.Comparable(seed, [2]uint64{d.versionless, hash}), d.intent}
}

// newDigests returns the digests of a request about an object, with related ones.
func newDigests(about []byte, related []hook.Group, parts ...[]byte) digests {
	return digests{maphash.Bytes(seed, bytes.Join(parts, []byte{0})), versionless(parts), func() uint64 { return intentOf(about, related) }}
}

// versionless returns the digest of parts of a request, without resource versions.
func versionless(parts [][]byte) uint64 {
	var h maphash.Hash
	h.SetSeed(seed)
	field := []byte(`"resourceVersion":"`)
	for _, data := range parts {
		for at := bytes.Index(data, field); at >= 0; at = bytes.Index(data, field) {
			_, _ = h.Write(data[:at]) // It never returns an error, here and below.
			data = data[at+len(field):]
			data = data[bytes.IndexByte(data, '"')+1:]
		}
		_, _ = h.Write(data)
		_ = h.WriteByte(0)
	}
	return h.Sum64()
}

// intentOf returns the digest of what users want.
func intentOf(about []byte, related []hook.Group) uint64 {
	others := versionless(partsOf(related))
	o, err := object.Parse(about)
	if err != nil {
		return others
	}
	wanted := o.IntentDigest()
	if spec := o.Field("spec"); spec != nil {
		wanted = object.DigestOf(spec)
	}
	return maphash.Comparable(seed, [2]uint64{others, wanted})
}

// partsOf returns the parts of groups of objects.
func partsOf(groups []hook.Group) [][]byte {
	parts := [][]byte{[]byte("groups")}
	for _, group := range groups {
		parts = append(parts, []byte(group.APIVersion), []byte(group.Kind))
		for _, entry := range group.Objects {
			parts = append(parts, []byte(entry.Namespace), []byte(entry.Name), entry.Object)
		}
	}
	return parts
}

func digestsOf(r *hook.Request) digests {
	own := [][]byte{r.Controller, r.Parent, strconv.AppendBool(nil, r.Finalizing)}
	return newDigests(r.Parent, r.Related, slices.Concat(own, partsOf(r.Children), partsOf(r.Related))...)
}
