package dashboard

import (
	"net/url"
	"strconv"
)

// pager is the position of a page in a list.
type pager struct {
	at                   url.URL
	offset, shown, total int
}

// Range returns which part of the list the page shows, such as "1–100 of 10,000".
func (p pager) Range() string {
	from := min(p.offset+1, p.total)
	return formatCount(from) + "–" + formatCount(p.offset+p.shown) + " of " + formatCount(p.total)
}

// HasPages reports whether there is more than one page.
func (p pager) HasPages() bool { return p.total > pageSize || p.offset > 0 }

// PreviousURL returns the URL of the previous page; "" for none.
func (p pager) PreviousURL() string { return p.pageURL(p.offset - pageSize) }

// NextURL returns the URL of the next page; "" for none.
func (p pager) NextURL() string { return p.pageURL(p.offset + pageSize) }

func (p pager) pageURL(offset int) string {
	if offset < 0 || offset >= p.total {
		return ""
	}
	return urlWith(&p.at, "offset", strconv.Itoa(offset))
}
