package webhook

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/object"
)

const (
	// initialBufferSize is the room for a reply that does not announce its size.
	initialBufferSize = 4 << 10
	// maxPreallocated is the announced size up to which room is made before anything
	// has arrived.
	maxPreallocated = 1 << 20
	// maxDrained is what is read of an unwanted reply to keep its connection.
	maxDrained = 64 << 10
	// maxLocation is what an error repeats of where a redirect points.
	maxLocation = 200
	// maxRetryAfter is the longest a hook may ask to be left alone.
	maxRetryAfter = 24 * time.Hour
)

// read returns the reply's body, or as much of it as arrived. It ends where there are
// more values than may be.
func (w *Webhook) read(resp *http.Response) ([]byte, error) {
	if encoding := resp.Header.Get("Content-Encoding"); encoding != "" && encoding != "identity" {
		return nil, &hook.MalformedError{Err: fmt.Errorf("unexpected Content-Encoding %q", encoding)}
	}
	if resp.ContentLength > w.limits.MaxResponseBytes {
		return nil, w.tooLarge()
	}
	data := make([]byte, 0, w.bufferSize(resp.ContentLength))
	for {
		n, err := resp.Body.Read(data[len(data):cap(data)])
		data = data[:len(data)+n]
		switch {
		case int64(len(data)) > w.limits.MaxResponseBytes:
			return data, w.tooLarge()
		case err == io.EOF:
			return data, nil
		case err != nil:
			return data, &truncatedError{bytesRead: len(data), err: err}
		case len(data) == cap(data):
			// No more room for what is refused anyway.
			if err := object.LimitValues(data, w.limits.MaxValues); err != nil {
				return data, &hook.MalformedError{Err: err}
			}
			data = w.grow(data)
		}
	}
}

// bufferSize is for one byte more than announced, so that the end is met at once.
func (w *Webhook) bufferSize(contentLength int64) int64 {
	if contentLength < 0 {
		return min(initialBufferSize, w.limits.MaxResponseBytes+1)
	}
	return min(contentLength, maxPreallocated) + 1
}

// grow doubles the room, but never beyond the byte that is one too many.
func (w *Webhook) grow(data []byte) []byte {
	larger := make([]byte, len(data), min(2*int64(len(data)), w.limits.MaxResponseBytes+1))
	copy(larger, data)
	return larger
}

func (w *Webhook) tooLarge() error {
	return &hook.MalformedError{Err: fmt.Errorf("larger than %s", formatBytes(w.limits.MaxResponseBytes))}
}

func formatBytes(bytes int64) string {
	if bytes >= 1<<20 && bytes%(1<<20) == 0 {
		return fmt.Sprintf("%d MiB", bytes>>20)
	}
	return fmt.Sprintf("%d bytes", bytes)
}

// statusError is what an answer other than 200 means.
func (w *Webhook) statusError(resp *http.Response, ex *CallResult) error {
	err := &StatusError{Code: resp.StatusCode, Body: quote(string(drain(resp, ex)), w.limits.MaxErrorBytes)}
	if resp.StatusCode/100 == 3 {
		err.Location = quote(resp.Header.Get("Location"), maxLocation)
	}
	switch resp.StatusCode {
	case http.StatusTooManyRequests:
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		// A proxy says so of what is behind it.
		return &hook.UnreachableError{Err: err}
	default:
		return err
	}
	if after := retryAfter(resp.Header.Get("Retry-After")); after > 0 {
		return &hook.RetryAfterError{After: after, Err: err}
	}
	return err
}

// drain reads an unwanted reply, up to a point, so that its connection can be
// kept.
func drain(resp *http.Response, ex *CallResult) []byte {
	head, _ := io.ReadAll(io.LimitReader(resp.Body, maxDrained))
	ex.BytesIn = len(head)
	return head
}

// retryAfter reads seconds or a date; 0 if it is neither or no time from now,
// for which the queue's own backoff is better.
func retryAfter(value string) time.Duration {
	if seconds, err := strconv.ParseInt(value, 10, 64); err == nil {
		return time.Duration(min(max(seconds, 0), int64(maxRetryAfter/time.Second))) * time.Second
	}
	if date, err := http.ParseTime(value); err == nil {
		return min(max(time.Until(date), 0), maxRetryAfter)
	}
	return 0
}

// quote makes one line of what a hook said, of so many bytes.
func quote(s string, limit int) string {
	if limit == 0 {
		return ""
	}
	s = strings.ToValidUTF8(s[:min(len(s), 4*limit)], "?")
	words := strings.FieldsFunc(s, func(c rune) bool { return unicode.IsSpace(c) || !unicode.IsPrint(c) })
	line := strings.Join(words, " ")
	if len(line) <= limit {
		return line
	}
	return strings.ToValidUTF8(line[:limit], "") + "…"
}
