package object

import (
	"bytes"
	"cmp"
	"hash/maphash"
	"slices"
	"strconv"
	"strings"
	"unique"
)

// seed makes digests differ from process to process; they are never stored.
var seed = maphash.MakeSeed()

// typeName is apiVersion and kind. There are few of them and each is held once.
type typeName struct{ apiVersion, kind string }

// finish makes the object of what was noted: its own copy of the bytes, its own
// strings, and its digests.
func (p *parser) finish(apiVersion, kind string) *Object {
	o := &Object{version: p.resourceVersion, generation: p.generation, deleting: p.deleting}
	o.typeName = unique.Make(typeName{either(p.apiVersion, apiVersion), either(p.kind, kind)})
	p.own(o)
	whole := withoutMember(p.data, p.managed)
	o.raw = p.typed(whole, apiVersion, kind)
	o.digest = digest(o.raw, p.versionIn(o.raw, len(p.data)-len(whole)))
	o.intent = p.intent(o)
	return o
}

// typed puts the type before the members where it was missing: kind first, as
// it stands when the object does not come in a list. What came by list and what
// came by watch shall be told apart by its content only.
func (p *parser) typed(raw []byte, apiVersion, kind string) []byte {
	if p.apiVersion == nil && apiVersion != "" {
		raw = prependText(raw, "apiVersion", apiVersion)
	}
	if p.kind == nil && kind != "" {
		raw = prependText(raw, "kind", kind)
	}
	return raw
}

// either is what was read or, if that is missing or the same, what was expected.
func either(read []byte, expected string) string {
	if read == nil || string(read) == expected {
		return expected
	}
	return string(read)
}

// own gives the object its strings, all in one piece of memory: an object has
// half a dozen short ones, and there may be a hundred thousand objects.
func (p *parser) own(o *Object) {
	var text strings.Builder
	text.Grow(p.textSize())
	keep := func(view []byte) string {
		from := text.Len()
		text.Write(view)
		return text.String()[from:]
	}
	keep(p.namespace)
	keep(p.name)
	keep(p.uid)
	o.names = text.String()
	o.nameFrom, o.uidFrom = uint32(len(p.namespace)), uint32(len(p.namespace)+len(p.name))
	if p.controlled {
		kind := unique.Make(typeName{string(p.owner.apiVersion), string(p.owner.kind)}).Value()
		o.controller = &Owner{APIVersion: kind.apiVersion, Kind: kind.kind, Name: keep(p.owner.name), UID: keep(p.owner.uid)}
	}
	if len(p.labels) > 0 {
		o.labels = make(Labels, len(p.labels))
	}
	for i, label := range p.labels {
		o.labels[i] = Label{keep(label.key), keep(label.value)}
	}
	slices.SortFunc(o.labels, func(a, b Label) int { return cmp.Compare(a.Key, b.Key) })
}

// textSize is how much memory the object's strings take.
func (p *parser) textSize() int {
	size := len(p.namespace) + len(p.name) + len(p.uid)
	if p.controlled {
		size += len(p.owner.name) + len(p.owner.uid)
	}
	for _, label := range p.labels {
		size += len(label.key) + len(label.value)
	}
	return size
}

// versionIn is where the resource version stands in what was made of the data by
// cutting out so many bytes, and maybe by putting others before them.
func (p *parser) versionIn(raw []byte, cut int) span {
	if p.version == (span{}) {
		return span{}
	}
	shift := int64(len(raw) - len(p.data))
	if p.managed.from > p.version.from {
		shift += int64(cut)
	}
	return span{p.version.from + shift, p.version.to + shift}
}

// digest leaves out the resource version, which changes without anything that a
// hook could see having changed.
func digest(raw []byte, version span) uint64 {
	var h maphash.Hash
	h.SetSeed(seed)
	h.Write(raw[:version.from])
	h.Write(raw[version.to:])
	return h.Sum64()
}

// intent hashes labels, annotations, generation and being deleted.
func (p *parser) intent(o *Object) uint64 {
	var h maphash.Hash
	h.SetSeed(seed)
	for _, label := range o.labels {
		h.WriteString(label.Key)
		h.WriteByte('=')
		h.WriteString(label.Value)
		h.WriteByte(0)
	}
	h.Write(p.data[p.annotations.from:p.annotations.to])
	h.WriteString(strconv.FormatInt(o.generation, 10))
	h.WriteString(strconv.FormatBool(o.deleting))
	return h.Sum64()
}

// DigestOf is a hash of bytes, stable within this process only.
func DigestOf(data []byte) uint64 { return maphash.Bytes(seed, data) }

// withoutMember cuts one member out of an object, with the comma that separated
// it, and returns a copy.
func withoutMember(data []byte, member span) []byte {
	if member == (span{}) {
		return bytes.Clone(data)
	}
	head, tail := bytes.TrimRight(data[:member.from], " \t\r\n"), bytes.TrimLeft(data[member.to:], " \t\r\n")
	switch {
	case bytes.HasSuffix(head, []byte(",")):
		head = head[:len(head)-1]
	case bytes.HasPrefix(tail, []byte(",")):
		tail = tail[1:]
	}
	return slices.Concat(head, tail)
}
