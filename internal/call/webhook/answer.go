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
	// firstRead is the room for a reply that does not announce its size.
	firstRead = 4 << 10
	// trusted is the announced size up to which room is made before anything
	// has arrived.
	trusted = 1 << 20
	// maxDrained is what is read of an unwanted reply to keep its connection.
	maxDrained = 64 << 10
	// maxLocation is what an error repeats of where a redirect points.
	maxLocation = 200
	// maxRetryAfter is the longest a hook may ask to be left alone.
	maxRetryAfter = 24 * time.Hour
)

// read returns the reply's body, or as much of it as arrived. It ends where there are
// more values than may be.
func (w *Webhook) read(answer *http.Response) ([]byte, error) {
	if encoding := answer.Header.Get("Content-Encoding"); encoding != "" && encoding != "identity" {
		return nil, &hook.MalformedError{Err: fmt.Errorf("encoded as %q, which was not asked for", encoding)}
	}
	if answer.ContentLength > w.limits.MaxReply {
		return nil, w.tooLarge()
	}
	data := make([]byte, 0, w.room(answer.ContentLength))
	for {
		n, err := answer.Body.Read(data[len(data):cap(data)])
		data = data[:len(data)+n]
		switch {
		case int64(len(data)) > w.limits.MaxReply:
			return data, w.tooLarge()
		case err == io.EOF:
			return data, nil
		case err != nil:
			return data, &partial{got: len(data), err: err}
		case len(data) == cap(data):
			// No more room for what is refused anyway.
			if err := object.LimitValues(data, w.limits.MaxValues); err != nil {
				return data, &hook.MalformedError{Err: err}
			}
			data = w.grow(data)
		}
	}
}

// room is for one byte more than announced, so that the end is met at once.
func (w *Webhook) room(announced int64) int64 {
	if announced < 0 {
		return min(firstRead, w.limits.MaxReply+1)
	}
	return min(announced, trusted) + 1
}

// grow doubles the room, but never beyond the byte that is one too many.
func (w *Webhook) grow(data []byte) []byte {
	grown := make([]byte, len(data), min(2*int64(len(data)), w.limits.MaxReply+1))
	copy(grown, data)
	return grown
}

func (w *Webhook) tooLarge() error {
	return &hook.MalformedError{Err: fmt.Errorf("larger than %s", size(w.limits.MaxReply))}
}

func size(bytes int64) string {
	if bytes >= 1<<20 && bytes%(1<<20) == 0 {
		return fmt.Sprintf("%d MiB", bytes>>20)
	}
	return fmt.Sprintf("%d bytes", bytes)
}

// refusal is what an answer other than 200 means.
func (w *Webhook) refusal(answer *http.Response, ex *Exchange) error {
	err := &StatusError{Code: answer.StatusCode, Said: quote(string(drain(answer, ex)), w.limits.MaxQuoted)}
	if answer.StatusCode/100 == 3 {
		err.To = quote(answer.Header.Get("Location"), maxLocation)
	}
	switch answer.StatusCode {
	case http.StatusTooManyRequests:
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		// A proxy says so of what is behind it.
		return &hook.UnreachableError{Err: err}
	default:
		return err
	}
	if after := retryAfter(answer.Header.Get("Retry-After")); after > 0 {
		return &hook.RetryAfterError{After: after, Err: err}
	}
	return err
}

// drain reads an unwanted reply, up to a point, so that its connection can be
// kept.
func drain(answer *http.Response, ex *Exchange) []byte {
	head, _ := io.ReadAll(io.LimitReader(answer.Body, maxDrained))
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
