package call

import (
	"strings"
	"testing"
)

func TestOutputIsBounded(t *testing.T) {
	OutputOf(t.Context()).Add("discarded")
	ctx, o := WithOutput(t.Context())
	if OutputOf(ctx) != o {
		t.Error("the context has another output")
	}
	for range 3 * maxOutputLines {
		o.Add("x")
	}
	o.Add(strings.Repeat("x", maxOutputBytes))
	if lines, dropped := o.Lines(); len(lines) != maxOutputLines || dropped != 2*maxOutputLines+1 || o.Size() > 2*maxOutputBytes {
		t.Errorf("%d lines, %d dropped, %d bytes", len(lines), dropped, o.Size())
	}
}
