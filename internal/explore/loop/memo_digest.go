package loop

import (
	"bytes"
	"hash/maphash"

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

// requestDigest computes digests.
type requestDigest struct{ exact, versionless maphash.Hash }

func newRequestDigest() *requestDigest {
	d := &requestDigest{}
	d.exact.SetSeed(seed)
	d.versionless.SetSeed(seed)
	return d
}

// done returns the digests of a request about an object, with related ones.
func (d *requestDigest) done(about []byte, related []hook.Group) digests {
	return digests{d.exact.Sum64(), d.versionless.Sum64(), func() uint64 { return intentOf(about, related) }}
}

// intentOf returns the digest of what users want.
func intentOf(about []byte, related []hook.Group) uint64 {
	d := newRequestDigest()
	d.groups(related)
	o, err := object.Parse(about)
	if err != nil {
		return d.versionless.Sum64()
	}
	wanted := o.IntentDigest()
	if spec := o.Field("spec"); spec != nil {
		wanted = object.DigestOf(spec)
	}
	return maphash.Comparable(seed, [2]uint64{d.versionless.Sum64(), wanted})
}

// text adds strings that are no objects.
func (d *requestDigest) text(parts ...string) {
	for _, part := range parts {
		maphash.WriteComparable(&d.exact, part)
		maphash.WriteComparable(&d.versionless, part)
	}
}

func (d *requestDigest) flag(value bool) {
	maphash.WriteComparable(&d.exact, value)
	maphash.WriteComparable(&d.versionless, value)
}

var versionField = []byte(`"resourceVersion":"`)

// object adds an object as JSON.
func (d *requestDigest) object(data []byte) {
	maphash.WriteComparable(&d.exact, len(data))
	_, _ = d.exact.Write(data) // It never returns an error, here and below.
	for {
		at := bytes.Index(data, versionField)
		if at < 0 {
			break
		}
		_, _ = d.versionless.Write(data[:at])
		data = data[at+len(versionField):]
		data = data[bytes.IndexByte(data, '"')+1:]
	}
	_, _ = d.versionless.Write(data)
	maphash.WriteComparable(&d.versionless, len(data))
}

func (d *requestDigest) groups(groups []hook.Group) {
	d.text("groups")
	for _, group := range groups {
		d.text(group.APIVersion, group.Kind)
		for _, entry := range group.Objects {
			d.text(entry.Namespace, entry.Name)
			d.object(entry.Object)
		}
	}
}

func digestsOf(r *hook.Request) digests {
	d := newRequestDigest()
	d.object(r.Controller)
	d.object(r.Parent)
	d.flag(r.Finalizing)
	d.groups(r.Children)
	d.groups(r.Related)
	return d.done(r.Parent, r.Related)
}

func customizeDigests(r *hook.CustomizeRequest) digests {
	d := newRequestDigest()
	d.object(r.Controller)
	d.object(r.Parent)
	return d.done(r.Parent, nil)
}

func handlerDigests(r *hook.HandlerRequest) digests {
	d := newRequestDigest()
	d.object(r.AppendJSON(nil))
	d.text(r.Since.String())
	return d.done(r.Object, nil)
}
