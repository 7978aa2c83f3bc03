package webhook

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/call/roundtrip"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// question is one question on its way to become an answer.
type question struct {
	kind Question
	body []byte
	// parent is what it is about, nil where no earlier reply could stand for the
	// answer.
	parent json.RawMessage
	// about is what replies are kept by; nil if they are not.
	about *subject
	// read decodes a reply, which it may keep.
	read func(reply []byte) error
}

// exchange puts the question and reads the answer.
func (w *Webhook) exchange(ctx context.Context, q question, ex *Exchange) error {
	limited, cancel := context.WithTimeout(ctx, w.timeout)
	defer cancel()

	link, err := w.links.current(limited)
	if err != nil {
		return w.unprepared(ctx, err)
	}
	if w.kept != nil && q.parent != nil {
		q.about = q.subject()
	}
	last := w.kept.find(q.about)
	answer, err := link.roundTrip(limited, w.post(q.body, last.asked(link.header)), q.kind)
	if interim, is := errors.AsType[*roundtrip.InterimError](err); is {
		ex.Code = interim.Code
		return &StatusError{Code: interim.Code}
	}
	if err != nil {
		return w.broken(ctx, limited, err)
	}
	defer answer.Body.Close()

	ex.Code = answer.StatusCode
	switch {
	case answer.StatusCode == http.StatusOK:
		data, err := w.read(answer)
		ex.BytesIn = len(data)
		if err != nil {
			return w.broken(ctx, limited, err)
		}
		return w.understand(q, answer.Header.Get("ETag"), data)
	case last.stands(answer.StatusCode):
		drain(answer, ex)
		return q.read(bytes.Clone(last.body))
	}
	return w.refusal(answer, ex)
}

// understand reads a reply, and keeps a copy of one that may be of use again.
func (w *Webhook) understand(q question, etag string, data []byte) error {
	if err := object.LimitValues(data, w.limits.MaxValues); err != nil {
		return &hook.MalformedError{Err: err}
	}
	if err := q.read(data); err != nil {
		return err
	}
	w.kept.keep(q.about, etag, data)
	return nil
}

// unprepared says why there is nothing to ask with.
func (w *Webhook) unprepared(asked context.Context, err error) error {
	if asked.Err() != nil {
		return asked.Err()
	}
	return &CredentialsError{err}
}

func (w *Webhook) post(body []byte, header http.Header) *http.Request {
	open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
	first, _ := open()
	return &http.Request{
		Method:        http.MethodPost,
		URL:           w.url,
		Host:          w.url.Host,
		Header:        header,
		Body:          first,
		GetBody:       open,
		ContentLength: int64(len(body)),
	}
}
