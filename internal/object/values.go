package object

import "fmt"

// TooManyValuesError says that a JSON text has more values than are read.
type TooManyValuesError struct{ Limit int }

func (e *TooManyValuesError) Error() string {
	return fmt.Sprintf("has more than %d JSON values", e.Limit)
}

// LimitValues returns a *TooManyValuesError if data has more than limit JSON values:
// objects, lists and scalars at all depths, member names not counted. It is for data
// of unknown origin, before a tree is made of it: a size in bytes does not bound a
// tree, in which the two bytes of an empty object take fifty times as much.
//
// It reads data at most once, needs no memory, and leaves it to the parser to find
// that data is not JSON.
func LimitValues(data []byte, limit int) error {
	// Each value takes a byte, and another that separates it from the next one or
	// closes what it stands in.
	if len(data)/2 < limit {
		return nil
	}
	if countValues(data, limit) > limit {
		return &TooManyValuesError{Limit: limit}
	}
	return nil
}

// countValues counts until there are more than enough: one value for the whole, one
// behind each comma, and one in front of the first comma of each container that is
// not empty.
func countValues(data []byte, enough int) int {
	count := 1
	for at := 0; at < len(data) && count <= enough; at++ {
		switch data[at] {
		case ',':
			count++
		case '{', '[':
			if next := skipSpace(data, at+1); next < len(data) && data[next] != '}' && data[next] != ']' {
				count++
			}
		case '"':
			at = closingQuote(data, at+1)
		}
	}
	return count
}

// closingQuote is where the string ends whose first byte stands at a place, or the
// end of data. Unlike skipText it does not check what is in the string.
func closingQuote(data []byte, at int) int {
	for at < len(data) {
		at = skipPlain(data, at)
		switch {
		case at >= len(data) || data[at] == '"':
			return at
		case data[at] == '\\':
			at += len(`\"`)
		default:
			at++
		}
	}
	return at
}
