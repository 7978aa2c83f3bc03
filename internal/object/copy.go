package object

import (
	"bytes"
	"encoding/binary"

	"github.com/go-json-experiment/json/jsontext"
)

// objectCopy is the object's own copy of the data, in one piece of memory.
type objectCopy struct {
	out  []byte
	size int // of the JSON; after that come texts that it has in no plain form
	// head bytes stand in place of the first skipped ones of the data.
	head, skipped int64
	cut           span
}

// copyData leaves out managedFields and puts the type before the members where it
// was missing: kind first, as it stands when the object does not come in a list.
// What came by list and what came by watch shall be told apart by its content
// only.
func (p *parser) copyData(apiVersion, kind string) objectCopy {
	head, body := p.typeHeader(apiVersion, kind)
	c := objectCopy{
		head:    int64(len(head)),
		skipped: int64(len(p.data) - len(body)),
		cut:     memberExtent(p.data, p.managed),
	}
	c.size = len(head) + len(body) - int(c.cut.to-c.cut.from)
	c.out = append(make([]byte, 0, c.size+p.extraSize()+p.managedSize()), head...)
	if c.cut == (span{}) {
		c.out = append(c.out, body...)
		return c
	}
	c.out = append(c.out, p.data[c.skipped:c.cut.from]...)
	c.out = append(c.out, p.data[c.cut.to:]...)
	return c
}

// typeHeader is what stands before the members if the type was missing, and the rest.
func (p *parser) typeHeader(apiVersion, kind string) (head, body []byte) {
	if p.kind == nil && kind != "" {
		head = appendTextMember(head, "kind", kind)
	}
	if p.apiVersion == nil && apiVersion != "" {
		head = appendTextMember(head, "apiVersion", apiVersion)
	}
	if head == nil {
		return nil, p.data
	}
	body = bytes.TrimLeft(p.data[1:], " \t\r\n")
	if body[0] == '}' {
		head = head[:len(head)-1]
	}
	return append([]byte{'{'}, head...), body
}

// appendTextMember appends a member and a comma.
func appendTextMember(out []byte, name, text string) []byte {
	out, _ = jsontext.AppendQuote(out, name)
	out = append(out, ':')
	out, _ = jsontext.AppendQuote(out, text)
	return append(out, ',')
}

// extraSize is how much room the texts take that stand nowhere in the data.
func (p *parser) extraSize() int {
	size := len(p.labels.rewritten)
	for _, text := range []textSpan{p.uid, p.owner.name, p.owner.uid} {
		if text.from < 0 {
			size += len(text.text)
		}
	}
	return size
}

// spanOf is where a span of the data has got to.
func (c *objectCopy) spanOf(s span) span {
	if s == (span{}) {
		return span{}
	}
	return span{c.shift(s.from), c.shift(s.to)}
}

func (c *objectCopy) shift(at int64) int64 {
	if at >= c.cut.to {
		at -= c.cut.to - c.cut.from
	}
	return at - c.skipped + c.head
}

// rangeOf is where a text stands.
func (c *objectCopy) rangeOf(text textSpan) textRange {
	if text.from < 0 {
		return c.appendText(text.text)
	}
	from := c.shift(text.from)
	return textRange{uint32(from), uint32(from) + uint32(len(text.text))}
}

func (c *objectCopy) labels(set labelSet) textRange {
	if set.rewritten != nil {
		return c.appendText(set.rewritten)
	}
	at := c.spanOf(set.span)
	return textRange{uint32(at.from), uint32(at.to)}
}

// appendText puts a text behind the JSON.
func (c *objectCopy) appendText(text []byte) textRange {
	from := len(c.out)
	c.out = append(c.out, text...)
	return textRange{uint32(from), uint32(len(c.out))}
}

// managedFields is the value of metadata.managedFields, nil where it is not kept.
func (p *parser) managedFields() []byte {
	if !p.keepManaged || p.managed == (span{}) {
		return nil
	}
	_, value, _ := bytes.Cut(p.data[p.managed.from:p.managed.to], []byte(":"))
	return bytes.TrimSpace(value)
}

// managedSize is how much room they take.
func (p *parser) managedSize() int {
	if value := p.managedFields(); value != nil {
		return len(value) + managedTail
	}
	return 0
}

// managedTail is the size of the number behind the managedFields: their length.
const managedTail = 4

// appendManaged puts the managedFields behind all other texts, if they are kept.
func (c *objectCopy) appendManaged(value []byte) {
	if value != nil {
		c.out = binary.BigEndian.AppendUint32(append(c.out, value...), uint32(len(value)))
	}
}

// JSONWithManagedFields is JSON with metadata.managedFields, where ParseWithManagedFields kept them.
func (o *Object) JSONWithManagedFields() []byte {
	if !o.managed {
		return o.JSON()
	}
	all := o.raw[:cap(o.raw)]
	end := len(all) - managedTail
	value := all[end-int(binary.BigEndian.Uint32(all[end:])) : end]
	member, _ := find(o.raw, "metadata") // They stood there.
	metadata := appendMember(o.raw[member.value.from:member.value.to], "managedFields", value)
	return concat(o.raw[:member.value.from], metadata, o.raw[member.value.to:])
}
