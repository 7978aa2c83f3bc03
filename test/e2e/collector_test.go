package e2e

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"html"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	collectorv1 "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	commonv1 "go.opentelemetry.io/proto/otlp/common/v1"
	tracev1 "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// collector receives spans by OTLP over HTTP.
type collector struct {
	mu    sync.Mutex
	hangs bool
	spans []*tracev1.Span
}

type collectorsKey struct{}

// collectorCommand: collector NAME [hangs|receives]: starts a collector, or changes what it does. Its URL is in
// $NAME_url afterwards.
func collectorCommand(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 || len(args) > 2 {
		ts.Fatalf("usage: collector NAME [hangs|receives]")
	}
	all := ts.Value(collectorsKey{}).(map[string]*collector)
	c, known := all[args[0]]
	if !known {
		c = &collector{}
		all[args[0]] = c
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		ts.Check(err)
		server := &http.Server{Handler: c, ReadHeaderTimeout: time.Minute}
		go func() { _ = server.Serve(listener) }()
		ts.Defer(func() { _ = server.Close() })
		ts.Setenv(args[0]+"_url", "http://"+listener.Addr().String())
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.hangs = len(args) == 2 && args[1] == "hangs"
}

// ServeHTTP implements http.Handler.
func (c *collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	request := &collectorv1.ExportTraceServiceRequest{}
	if err != nil || r.URL.Path != "/v1/traces" || proto.Unmarshal(body, request) != nil {
		http.Error(w, "no spans", http.StatusBadRequest)
		return
	}
	c.mu.Lock()
	hangs := c.hangs
	for _, process := range request.GetResourceSpans() {
		for _, scope := range process.GetScopeSpans() {
			c.spans = append(c.spans, scope.GetSpans()...)
		}
	}
	c.mu.Unlock()
	if hangs {
		<-r.Context().Done()
	}
}

// spansCommand: spans NAME: prints the spans that a collector has, each below its parent and with its links.
func spansCommand(ts *testscript.TestScript, neg bool, args []string) {
	if neg {
		ts.Fatalf("! spans says nothing: use ! stdout")
	}
	fmt.Fprint(ts.Stdout(), knownCollector(ts, args))
}

func knownCollector(ts *testscript.TestScript, args []string) *collector {
	if len(args) == 1 {
		if c, known := ts.Value(collectorsKey{}).(map[string]*collector)[args[0]]; known {
			return c
		}
	}
	ts.Fatalf("usage: spans NAME, of a collector")
	return nil
}

// String returns the spans, one a line.
func (c *collector) String() string {
	var text strings.Builder
	for _, line := range c.tree() {
		text.WriteString(line.String() + "\n")
	}
	return text.String()
}

// spanLine is a span in the tree of its trace.
type spanLine struct {
	*tracev1.Span

	depth int
	// linked are the names of the spans that it links, as far as they were received.
	linked []string
}

func (l spanLine) String() string {
	text := strings.Repeat("  ", l.depth) + titleOf(l.Span)
	if len(l.linked) > 0 {
		text += " <- " + strings.Join(l.linked, ", ")
	}
	if l.Status.GetCode() == tracev1.Status_STATUS_CODE_ERROR {
		text += " ERROR " + l.Status.GetMessage()
	}
	return text + " trace=" + hex.EncodeToString(l.TraceId) + " span=" + hex.EncodeToString(l.SpanId)
}

// titleOf returns the name of a span, with that of its object.
func titleOf(s *tracev1.Span) string {
	if name := attributeOf(s, "k8s.object.name"); name != "" {
		return s.GetName() + " " + name
	}
	return s.GetName()
}

func attributeOf(s *tracev1.Span, key string) string {
	i := slices.IndexFunc(s.GetAttributes(), func(a *commonv1.KeyValue) bool { return a.GetKey() == key })
	if i < 0 {
		return ""
	}
	return s.GetAttributes()[i].GetValue().GetStringValue()
}

// tree returns all spans, those below others after them.
func (c *collector) tree() (lines []spanLine) {
	c.mu.Lock()
	defer c.mu.Unlock()
	byID, below := map[string]*tracev1.Span{}, map[string][]*tracev1.Span{}
	for _, s := range c.spans {
		byID[string(s.GetSpanId())] = s
	}
	for _, s := range byID {
		above := string(s.GetParentSpanId())
		if byID[above] == nil {
			above = ""
		}
		below[above] = append(below[above], s)
	}
	var walk func(above string, depth int)
	walk = func(above string, depth int) {
		slices.SortFunc(below[above], func(a, b *tracev1.Span) int { return int(a.GetStartTimeUnixNano()) - int(b.GetStartTimeUnixNano()) })
		for _, s := range below[above] {
			line := spanLine{Span: s, depth: depth}
			for _, link := range s.GetLinks() {
				if to := byID[string(link.GetSpanId())]; to != nil {
					line.linked = append(line.linked, titleOf(to))
				}
			}
			lines = append(lines, line)
			walk(string(s.GetSpanId()), depth+1)
		}
	}
	walk("", 0)
	return lines
}

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
