package object

import (
	"bytes"
	"hash/maphash"
	"slices"
	"strconv"
	"unique"
	"unsafe"
)

// seed makes digests differ between processes; they are never stored.
var seed = maphash.MakeSeed()

// typeName is apiVersion and kind. There are few of them, and each is stored once.
type typeName struct{ apiVersion, kind string }

// build returns the parsed object with its own copy of the bytes, and its digests.
func (p *parser) build(apiVersion, kind string) *Object {
	o := &Object{version: p.resourceVersion, generation: p.generation, deleted: p.deleting}
	o.typeName = unique.Make(typeName{orExpected(p.apiVersion, apiVersion), orExpected(p.kind, kind)}) // It copies new texts.
	var room [256]byte
	o.names, o.nameFrom = string(append(append(room[:0], p.namespace...), p.name...)), uint32(len(p.namespace))
	c := p.copyData(apiVersion, kind)
	if p.controlled {
		o.owner = ownerRanges{
			typeName: unique.Make(typeName{textOf(p.owner.apiVersion), textOf(p.owner.kind)}),
			name:     c.rangeOf(p.owner.name),
			uid:      c.rangeOf(p.owner.uid),
		}
	}
	o.uid, o.labels = c.rangeOf(p.uid), c.labels(p.labels)
	managed := p.managedFields()
	c.appendManaged(managed)
	o.managed = managed != nil
	o.raw = c.out[:c.size:len(c.out)]
	o.digest = digest(o.raw, c.spanOf(p.version))
	o.intent = p.intent(o)
	return o
}

// orExpected returns a view of what was read, or the expected text if that is missing.
func orExpected(read []byte, expected string) string {
	if read == nil {
		return expected
	}
	return textOf(read)
}

// textOf returns a view of bytes. It must not outlive them.
func textOf(data []byte) string { return unsafe.String(unsafe.SliceData(data), len(data)) } //nolint:gosec // As the comment says.

// digest omits the resource version, which changes without any change that a hook sees.
func digest(raw []byte, version span) uint64 {
	var h maphash.Hash
	h.SetSeed(seed)
	h.Write(raw[:version.from])
	h.Write(raw[version.to:])
	return h.Sum64()
}

// intent hashes labels, annotations, generation and deletion.
func (p *parser) intent(o *Object) uint64 {
	var h maphash.Hash
	h.SetSeed(seed)
	h.WriteString(o.textAt(o.labels))
	h.WriteByte(0)
	h.Write(p.data[p.annotations.from:p.annotations.to])
	h.WriteString(strconv.FormatInt(o.generation, 10))
	h.WriteString(strconv.FormatBool(o.deleted))
	return h.Sum64()
}

// DigestOf returns a hash of bytes, stable within this process only.
func DigestOf(data []byte) uint64 { return maphash.Bytes(seed, data) }

// withoutMember returns a copy of an object without one member.
func withoutMember(data []byte, member span) []byte {
	cut := memberExtent(data, member)
	return slices.Concat(data[:cut.from], data[cut.to:])
}

// memberExtent returns the span of a member with its comma and white space. No member starts at
// the beginning of data.
func memberExtent(data []byte, member span) span {
	if member == (span{}) {
		return span{}
	}
	head, tail := bytes.TrimRight(data[:member.from], " \t\r\n"), bytes.TrimLeft(data[member.to:], " \t\r\n")
	switch {
	case bytes.HasSuffix(head, []byte(",")):
		head = head[:len(head)-1]
	case bytes.HasPrefix(tail, []byte(",")):
		tail = tail[1:]
	}
	return span{int64(len(head)), int64(len(data) - len(tail))}
}
