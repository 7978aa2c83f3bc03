package web

import (
	"bytes"
	"compress/gzip"
	"net/http"
	"strings"
)

// minGzipBytes is the smallest response worth compressing.
const minGzipBytes = 1024

// write sends a response, compressed where that is safe. The compressed size of a page that
// mixes text of an attacker with secrets leaks how much they have in common (BREACH). An
// attacker needs another site that makes the browser load many pages, so only same-origin
// requests and direct navigation are compressed. Public assets are compressed for everyone.
func (req *Request) write(status int, body []byte, public bool) error {
	header := req.W.Header()
	header.Add("Vary", "Accept-Encoding")
	if !public {
		header.Add("Vary", "Sec-Fetch-Site")
	}
	site := req.R.Header.Get("Sec-Fetch-Site")
	safe := public || site == "same-origin" || site == "none" // A page of the dashboard or the user made the request.
	if len(body) >= minGzipBytes && safe && acceptsGzip(req.R) {
		header.Set("Content-Encoding", "gzip")
		var out bytes.Buffer
		small, _ := gzip.NewWriterLevel(&out, gzip.BestSpeed) // BestSpeed is a valid level.
		_, _ = small.Write(body)                              // A bytes.Buffer never fails.
		_ = small.Close()
		body = out.Bytes()
	}
	req.W.WriteHeader(max(status, http.StatusOK))
	_, err := req.W.Write(body)
	return err
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
