package dashboard

import (
	"fmt"
	"unicode/utf8"
)

// Sizes of the graph in pixels.
const (
	boxWidth   = 252
	boxHeight  = 46
	boxGapX    = 48
	boxGapY    = 14
	graphInset = 8
	// The letters of the lines of a box.
	line1Letters = 27
	line2Letters = 33
)

// graphLayout is a graph with places: boxes from left to right, and edges between them.
type graphLayout struct {
	Boxes         []*graphBox
	Edges         []graphEdge
	Width, Height int
}

// graphEdge is a line between two boxes. Reversed ones have their arrow at the left.
type graphEdge struct {
	Class, Path string
	// X and Y are where the label is.
	X, Y int
}

// layOut places the boxes. Those before the root are left of it, and each level of the tree is a
// column: a box is in the middle of its children, so no lines cross. The same graph always looks
// the same.
func layOut(before []*graphBox, root *graphBox) *graphLayout {
	l := &graphLayout{}
	column := 0
	if len(before) > 0 {
		column = 1
	}
	rows := 0
	l.place(root, column, &rows)
	for i, box := range before {
		box.X, box.Y = graphInset, max(0, (rows-len(before))/2+i)*(boxHeight+boxGapY)+graphInset
		l.add(box)
		l.connect(box, root, box.Edge)
	}
	return l
}

// place places a box and its children from a row on.
func (l *graphLayout) place(box *graphBox, column int, row *int) {
	box.X = graphInset + column*(boxWidth+boxGapX)
	if len(box.Children) == 0 {
		box.Y = graphInset + *row*(boxHeight+boxGapY)
		*row++
	}
	for _, child := range box.Children {
		l.place(child, column+1, row)
	}
	if n := len(box.Children); n > 0 {
		box.Y = (box.Children[0].Y + box.Children[n-1].Y) / 2
	}
	l.add(box)
	for _, child := range box.Children {
		l.connect(box, child, child.Edge)
	}
}

func (l *graphLayout) add(box *graphBox) {
	l.Boxes = append(l.Boxes, box)
	l.Width, l.Height = max(l.Width, box.X+boxWidth+graphInset), max(l.Height, box.Y+boxHeight+graphInset)
}

// connect draws a line from the right of a box to the left of another one.
func (l *graphLayout) connect(left, right *graphBox, class string) {
	x1, y1, x2, y2 := left.X+boxWidth, left.Y+boxHeight/2, right.X, right.Y+boxHeight/2
	middle := (x1 + x2) / 2
	path := fmt.Sprintf("M%d %dC%d %d %d %d %d %d", x1, y1, middle, y1, middle, y2, x2, y2)
	if class == "writes" { // The arrow is at the object, which is left of who writes it.
		path = fmt.Sprintf("M%d %dC%d %d %d %d %d %d", x2, y2, middle, y2, middle, y1, x1, y1)
	}
	l.Edges = append(l.Edges, graphEdge{class, path, middle, (y1 + y2) / 2})
}

// Line1 is the name, as far as it fits.
func (b *graphBox) Line1() string { return fit(b.Name, line1Letters) }

// Line2 is the kind and the state, as far as they fit.
func (b *graphBox) Line2() string { return fit(joinNotes(b.Kind, b.State, b.Note), line2Letters) }

// Sign is the icon of the state, whose shape differs as its color does.
func (b *graphBox) Sign() string {
	switch b.Class {
	case "writer":
		return "edit"
	case "related":
		return "search"
	case "owner":
		return "graph"
	}
	return b.Tone
}

// Radius is the shape of the box: failed objects have corners, and field managers round ends.
func (b *graphBox) Radius() int {
	switch {
	case b.Class == "writer":
		return boxHeight / 2
	case b.Tone == "bad":
		return 0
	}
	return 8
}

// Stack draws the edges of the boxes behind a group.
func (b *graphBox) Stack() string {
	return fmt.Sprintf("M%d %dh%dM%d %dh%d", b.X+6, b.Y+boxHeight+3, boxWidth-12, b.X+12, b.Y+boxHeight+6, boxWidth-24)
}

// At returns a point in the box.
func (b *graphBox) At(x, y int) string { return fmt.Sprintf("translate(%d %d)", b.X+x, b.Y+y) }

// Width is the width of a box.
func (*graphBox) Width() int { return boxWidth }

// Height is the height of a box.
func (*graphBox) Height() int { return boxHeight }

// fit shortens untrusted text to a line of a box. Names of one owner differ at their ends.
func fit(text string, letters int) string {
	text = shorten(text)
	if utf8.RuneCountInString(text) <= letters {
		return text
	}
	all, end := []rune(text), letters/3
	return string(all[:letters-1-end]) + "…" + string(all[len(all)-end:])
}
