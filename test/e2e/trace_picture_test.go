package e2e

import (
	"bytes"
	"fmt"
	"html"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// pictureCommand: picture NAME FILE ROOT: draws the latest trace of a collector that begins with a span ROOT. With
// $SETPOINT_PICTURES the file is written in the repository, else the picture is made and dropped.
func pictureCommand(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: picture NAME FILE ROOT")
	}
	drawn := drawTrace(knownCollector(ts, args[:1]).tree(), args[2])
	if drawn == nil {
		ts.Fatalf("no trace begins with %s", args[2])
	}
	if os.Getenv("SETPOINT_PICTURES") != "" {
		ts.Check(os.WriteFile(filepath.Join("..", "..", filepath.FromSlash(args[1])), drawn, 0o600))
	}
}

// Sizes of a picture, in pixels.
const (
	rowHeight  = 22
	nameWidth  = 330
	timeWidth  = 560
	levelWidth = 14
)

// colors are those of bars, by the first word of the name.
var colors = map[string]string{"reconcile": "#3b6fd4", "hook": "#c77700"}

// drawTrace draws the first trace that begins with a span of this name: a row for each span, with its bar in time.
func drawTrace(lines []spanLine, root string) []byte {
	first := slices.IndexFunc(lines, func(l spanLine) bool { return l.depth == 0 && l.Name == root })
	if first < 0 {
		return nil
	}
	rows := lines[first : first+1]
	for _, l := range lines[first+1:] {
		if l.depth == 0 {
			break
		}
		rows = append(rows, l)
	}
	began, ended := rows[0].StartTimeUnixNano, uint64(0)
	for _, row := range rows {
		ended = max(ended, row.EndTimeUnixNano)
	}
	scale := float64(timeWidth) / float64(ended-began)
	var svg bytes.Buffer
	fmt.Fprintf(&svg, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" font-family="sans-serif" font-size="12">`+"\n", nameWidth+timeWidth+90, rowHeight*len(rows)+34)
	fmt.Fprintf(&svg, `<rect width="100%%" height="100%%" fill="#ffffff"/>`+"\n"+`<text x="10" y="20" font-weight="bold" fill="#222222">trace %x</text>`+"\n", rows[0].TraceId)
	for i, row := range rows {
		y := 32 + i*rowHeight
		x := float64(nameWidth) + float64(row.StartTimeUnixNano-began)*scale
		width := max(2, float64(row.EndTimeUnixNano-row.StartTimeUnixNano)*scale)
		word, _, _ := strings.Cut(row.Name, " ")
		color := colors[word]
		if color == "" {
			color = "#3f8f4f"
		}
		took := time.Duration(row.EndTimeUnixNano - row.StartTimeUnixNano).Round(100 * time.Microsecond)
		fmt.Fprintf(&svg, `<text x="%d" y="%d" fill="#222222">%s</text>`+"\n", 10+row.depth*levelWidth, y+14, html.EscapeString(titleOf(row.Span)))
		fmt.Fprintf(&svg, `<rect x="%.1f" y="%d" width="%.1f" height="12" rx="2" fill="%s"/>`+"\n", x, y+4, width, color)
		fmt.Fprintf(&svg, `<text x="%.1f" y="%d" fill="#555555">%s</text>`+"\n", x+width+5, y+14, took)
	}
	svg.WriteString("</svg>\n")
	return svg.Bytes()
}
