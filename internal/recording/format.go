package recording

import (
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"time"
)

// A file is a series of gzip streams, as `zcat` reads it, with JSON in lines. Each stream is a block that can be read alone,
// so a file that was cut is whole up to its last block. The comment of each has the version.
const (
	magic   = "setpoint recording "
	version = "v2"

	// blockSize is the size of the text of a block; only longer lines make it longer.
	blockSize = 256 << 10
	// maxBlock limits what a reader allocates. A Writer leaves out longer lines.
	maxBlock = 64 << 20
	maxLine  = maxBlock - 2*blockSize
)

// ErrNotRecording is returned for a file of another kind.
var ErrNotRecording = errors.New("is no recording of setpoint")

// ErrEmpty is returned for a file without content, and for a stream that ended before it began.
var ErrEmpty = errors.New("the file is empty")

// unreadableError is about a recording that is damaged or of another version.
type unreadableError struct{ error }

func (e unreadableError) Unwrap() error { return e.error }

// errCut is returned for a block that is not complete.
var errCut = errors.New("the file ends in the middle of a block")

// Segment begins a part of a file that can be read without the parts before it: what one process recorded.
type Segment struct {
	Process string    `json:"process"`
	Version string    `json:"setpoint"`
	Began   time.Time `json:"began"`
}

// Totals count what a recording lacks.
type Totals struct {
	// Dropped calls came faster than they could be written, or their requests are no JSON; Oversized ones are too large.
	Dropped   uint64 `json:"dropped,omitempty"`
	Oversized uint64 `json:"oversized,omitempty"`
}

// Plus returns the sum.
func (t Totals) Plus(more Totals) Totals {
	return Totals{t.Dropped + more.Dropped, t.Oversized + more.Oversized}
}

// Minus returns the difference.
func (t Totals) Minus(less Totals) Totals {
	return Totals{t.Dropped - less.Dropped, t.Oversized - less.Oversized}
}

// The limits of a segment bound the memory of writers and readers.
const (
	maxSegmentValues = 1 << 16
	maxSegmentBytes  = 64 << 20
)

// The line of a value, around its digest and its JSON.
const (
	valuePrefix = `{"value":"`
	valueMiddle = `","json":`
	valueSuffix = `}`
)

const digestLength = 22

func digestOf(value []byte) string {
	sum := sha256.Sum256(value)
	return base64.RawURLEncoding.EncodeToString(sum[:16])
}
