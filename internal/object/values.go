package object

import (
	"bytes"
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

// Depth returns how deep the objects and lists of a JSON text are nested.
func Depth(data []byte) (deepest int) {
	open := 0
	for at := 0; at < len(data); at++ {
		switch data[at] {
		case '{', '[':
			open++
			deepest = max(deepest, open)
		case '}', ']':
			open--
		case '"':
			at = closingQuote(data, at+1)
		}
	}
	return deepest
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
