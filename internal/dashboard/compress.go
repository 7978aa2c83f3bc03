package dashboard

import (
	"bytes"
	"compress/gzip"
	"net/http"
	"strings"
)

// minGzipBytes is how large an answer is that is worth compressing.
const minGzipBytes = 1024

// write sends what may be compressed. A page that has what others sent beside what they
// may not read tells by its size, compressed, how much the two have in common (BREACH).
// To learn something so, another site has to have the browser ask for many pages. It says
// where a request comes from: only what the dashboard itself asks for, or the visitor, is
// compressed. Browsers that do not say so get pages as they are. What is public is
// compressed for all. CSRF tokens tell nothing in any case: package access masks them.
func (req *request) write(status int, body []byte, public bool) error {
	header := req.w.Header()
	header.Add("Vary", "Accept-Encoding")
	if !public {
		header.Add("Vary", "Sec-Fetch-Site")
	}
	if len(body) >= minGzipBytes && acceptsGzip(req.r) && (public || isSameOrigin(req.r)) {
		header.Set("Content-Encoding", "gzip")
		body = gzipBytes(body)
	}
	req.w.WriteHeader(max(status, http.StatusOK))
	_, err := req.w.Write(body)
	return err
}

// isSameOrigin says that a page of this dashboard, or the visitor, wants something: the
// browser says so.
func isSameOrigin(r *http.Request) bool {
	site := r.Header.Get("Sec-Fetch-Site")
	return site == "same-origin" || site == "none"
}

func acceptsGzip(r *http.Request) bool {
	for each := range strings.SplitSeq(r.Header.Get("Accept-Encoding"), ",") {
		coding, parameter, _ := strings.Cut(strings.TrimSpace(each), ";")
		if strings.EqualFold(strings.TrimSpace(coding), "gzip") {
			quality := strings.ReplaceAll(parameter, " ", "")
			return strings.Trim(strings.TrimPrefix(quality, "q="), "0.") != "" || quality == ""
		}
	}
	return false
}

func gzipBytes(body []byte) []byte {
	var out bytes.Buffer
	small, _ := gzip.NewWriterLevel(&out, gzip.BestSpeed) // The level is one of those that there are.
	_, _ = small.Write(body)                              // A buffer takes everything.
	_ = small.Close()
	return out.Bytes()
}
