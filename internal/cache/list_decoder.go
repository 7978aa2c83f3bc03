package cache

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
)

// readList decodes a list item by item.
func (s *listWatcher) readList(body io.Reader) (*internalversion.List, error) {
	dec := json.NewDecoder(body)
	list := &internalversion.List{}
	if err := expectDelim(dec, json.Delim('{')); err != nil {
		return nil, err
	}
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			return nil, fmt.Errorf("read list: %w", err)
		}
		if err := s.readMember(dec, name, list); err != nil {
			return nil, fmt.Errorf("read list: %v: %w", name, err)
		}
	}
	return list, expectDelim(dec, json.Delim('}'))
}

func (s *listWatcher) readMember(dec *json.Decoder, name json.Token, list *internalversion.List) error {
	switch name {
	case "metadata":
		return dec.Decode(&list.ListMeta)
	case "items":
		return s.readItems(dec, list)
	}
	var skipped json.RawMessage
	return dec.Decode(&skipped)
}

func (s *listWatcher) readItems(dec *json.Decoder, list *internalversion.List) error {
	token, err := dec.Token()
	if err != nil || token == nil { // "items":null
		return err
	}
	var data json.RawMessage
	for dec.More() {
		if err := dec.Decode(&data); err != nil {
			return err
		}
		o, err := s.parse(data)
		if err != nil {
			return err
		}
		list.Items = append(list.Items, listItem{o})
	}
	return expectDelim(dec, json.Delim(']'))
}

func expectDelim(dec *json.Decoder, want json.Delim) error {
	token, err := dec.Token()
	switch {
	case errors.Is(err, io.EOF):
		return io.ErrUnexpectedEOF
	case err != nil:
		return err
	case token != want:
		return fmt.Errorf("want %v, got %v", want, token)
	}
	return nil
}
