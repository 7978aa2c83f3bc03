package object

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// TooManyValuesError means that a JSON text has more values than the limit.
type TooManyValuesError struct{ Limit int }

func (e *TooManyValuesError) Error() string {
	return fmt.Sprintf("has more than %d JSON values", e.Limit)
}

// LimitValues returns a *TooManyValuesError if data has more than limit JSON values: objects,
// lists and scalars at all depths, without member names. It protects decoding of untrusted
// data, since a size in bytes does not bound a tree: an empty object of two bytes takes fifty
// times as much.
//
// It reads data at most once, without allocations, and does not check that data is JSON.
func LimitValues(data []byte, limit int) error {
	// Each value takes a byte, and another one that separates or closes it.
	if len(data)/2 < limit {
		return nil
	}
	if countValues(data, limit) > limit {
		return &TooManyValuesError{Limit: limit}
	}
	return nil
}

// countValues counts until there are more than enough: one value for the whole, one per comma,
// and one per container that is not empty.
func countValues(data []byte, enough int) int {
	count := 1
	for at := 0; at < len(data) && count <= enough; at++ {
		switch data[at] {
		case ',':
			count++
		case '{', '[':
			if next := bytes.TrimLeft(data[at+1:], " \t\r\n"); len(next) > 0 && next[0] != '}' && next[0] != ']' {
				count++
			}
		case '"':
			at = closingQuote(data, at+1)
		}
	}
	return count
}

// Indent returns a JSON text with line breaks and indentation, and true. It returns data itself if that is no
// JSON, or is nested so deep that indentation would be most of the text: it grows with the square of the
// depth, which hooks choose.
func Indent(data []byte) ([]byte, bool) {
	var text bytes.Buffer
	if indentation(data) > 1<<20+8*len(data) || json.Indent(&text, data, "", indent) != nil {
		return data, false
	}
	return text.Bytes(), true
}

const indent = "  "

// indentation returns how much longer Indent makes a compact text.
func indentation(data []byte) (size int) {
	depth := 0
	for at := 0; at < len(data); at++ {
		switch data[at] {
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		case ',':
		case '"':
			at = closingQuote(data, at+1)
			continue
		default:
			continue
		}
		size += 1 + len(indent)*depth
	}
	return size
}

// closingQuote returns the end of the string whose first byte is at a position, or of data.
func closingQuote(data []byte, at int) int {
	for at < len(data) && data[at] != '"' {
		if data[at] == '\\' {
			at++
		}
		at++
	}
	return at
}
