package object

import (
	"bytes"

	"github.com/go-json-experiment/json/jsontext"
)

// copied is the object's own copy of the data, in one piece of memory.
type copied struct {
	out  []byte
	size int // of the JSON; after that come texts that it has in no plain form
	// head bytes stand in place of the first skipped ones of the data.
	head, skipped int64
	cut           span
}

// copied leaves out managedFields and puts the type before the members where it
// was missing: kind first, as it stands when the object does not come in a list.
// What came by list and what came by watch shall be told apart by its content
// only.
func (p *parser) copied(apiVersion, kind string) copied {
	head, body := p.typed(apiVersion, kind)
	c := copied{
		head:    int64(len(head)),
		skipped: int64(len(p.data) - len(body)),
		cut:     around(p.data, p.managed),
	}
	c.size = len(head) + len(body) - int(c.cut.to-c.cut.from)
	c.out = append(make([]byte, 0, c.size+p.oddSize()), head...)
	if c.cut == (span{}) {
		c.out = append(c.out, body...)
		return c
	}
	c.out = append(c.out, p.data[c.skipped:c.cut.from]...)
	c.out = append(c.out, p.data[c.cut.to:]...)
	return c
}

// typed is what stands before the members if the type was missing, and the rest.
func (p *parser) typed(apiVersion, kind string) (head, body []byte) {
	if p.kind == nil && kind != "" {
		head = appendText(head, "kind", kind)
	}
	if p.apiVersion == nil && apiVersion != "" {
		head = appendText(head, "apiVersion", apiVersion)
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

// appendText appends a member and a comma.
func appendText(out []byte, name, text string) []byte {
	out, _ = jsontext.AppendQuote(out, name)
	out = append(out, ':')
	out, _ = jsontext.AppendQuote(out, text)
	return append(out, ',')
}

// oddSize is how much room the texts take that stand nowhere in the data.
func (p *parser) oddSize() int {
	size := len(p.labels.odd)
	for _, text := range []piece{p.uid, p.owner.name, p.owner.uid} {
		if text.from < 0 {
			size += len(text.text)
		}
	}
	return size
}

// spanOf is where a span of the data has got to.
func (c *copied) spanOf(s span) span {
	if s == (span{}) {
		return span{}
	}
	return span{c.shift(s.from), c.shift(s.to)}
}

func (c *copied) shift(at int64) int64 {
	if at >= c.cut.to {
		at -= c.cut.to - c.cut.from
	}
	return at - c.skipped + c.head
}

// place is where a text stands.
func (c *copied) place(text piece) place {
	if text.from < 0 {
		return c.add(text.text)
	}
	from := c.shift(text.from)
	return place{uint32(from), uint32(from) + uint32(len(text.text))}
}

func (c *copied) labels(set labelSet) place {
	if set.odd != nil {
		return c.add(set.odd)
	}
	at := c.spanOf(set.span)
	return place{uint32(at.from), uint32(at.to)}
}

// add puts a text behind the JSON.
func (c *copied) add(text []byte) place {
	from := len(c.out)
	c.out = append(c.out, text...)
	return place{uint32(from), uint32(len(c.out))}
}
