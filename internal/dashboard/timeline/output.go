package timeline

import (
	"regexp"
	"slices"
	"time"

	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// OutputLine is a line that a program printed.
type OutputLine struct {
	At   time.Time
	Text string
}

// ProgramOutput is what a program printed about a run.
type ProgramOutput struct {
	// Process is the name of the program.
	Process string
	// Own has the lines that name the object; nil without any.
	Own *Lines
	// Other has further lines from the time of the calls, which may be about other objects; nil
	// without any.
	Other *Lines
}

// Lines are the first lines of an output, and the number of more lines.
type Lines struct {
	Texts []string
	More  int
}

// maxOutputLines is the number of lines that are shown.
const maxOutputLines = 100

func (l *Lines) add(text string) *Lines {
	if l == nil {
		l = &Lines{}
	}
	if len(l.Texts) >= maxOutputLines {
		l.More++
	} else {
		l.Texts = append(l.Texts, text)
	}
	return l
}

// Lines are read from a pipe a moment after they are printed. A line that names the object may also
// come from work that goes on after the call.
const (
	readDelay = 100 * time.Millisecond
	workDelay = 5 * time.Second
)

// OutputDuring returns the lines of a program that belong to a run. The calls are the steps that
// called the program, and next is the start of the next run of the object; zero for none.
func OutputDuring(run *inspect.Run, calls []inspect.Step, next time.Time, lines []OutputLine) (o ProgramOutput) {
	end := run.Began.Add(run.Took + workDelay)
	if !next.IsZero() && next.Before(end) {
		end = next
	}
	named := namesOf(run.Object)
	for _, line := range lines {
		if line.At.Before(run.Began) || !line.At.Before(end) {
			continue
		}
		during := slices.ContainsFunc(calls, func(s inspect.Step) bool {
			began := run.Began.Add(s.At)
			return !line.At.Before(began) && !line.At.After(began.Add(s.Took+readDelay))
		})
		switch about := named.find(line.Text); {
		case about == thisObject:
			o.Own = o.Own.add(line.Text)
		case about == unknownObject && during:
			o.Other = o.Other.add(line.Text)
		}
	}
	return o
}

// NextRun returns the start of the next run of the object by the same controller; zero if there is
// none.
func NextRun(run *inspect.Run, runs []inspect.Run) (next time.Time) {
	for i := range runs {
		r := &runs[i]
		later := r.Process == run.Process && r.Controller == run.Controller && r.Began.After(run.Began)
		if later && (next.IsZero() || r.Began.Before(next)) {
			next = r.Began
		}
	}
	return next
}

// lineObject is the object that a line is about.
type lineObject int

const (
	unknownObject lineObject = iota
	thisObject
	otherObject
)

// objectNames finds the names of an object in lines.
type objectNames struct {
	// full is "Kind namespace/name", or "Kind name".
	full string
	word *regexp.Regexp
}

func namesOf(ref object.Ref) objectNames {
	name := regexp.QuoteMeta(ref.Name)
	full := ref.Name
	if ref.Namespace != "" {
		name, full = "(?:"+regexp.QuoteMeta(ref.Namespace)+"/)?"+name, ref.Namespace+"/"+ref.Name
	}
	// A word ends before a full stop, but not before the dot in a name.
	word := regexp.MustCompile(`(?:^|[^\w./-])` + name + `(?:$|[^\w./-]|\.(?:$|\W))`)
	return objectNames{full: ref.Kind.Kind + " " + full, word: word}
}

// objectField is the field of a structured log line that names its object, as text or JSON.
var objectField = regexp.MustCompile(`\bobject"?[=:]\s*"([A-Z]\w* [^"\s]+)"`)

// find tells which object a line is about. The field of a structured line decides.
func (n objectNames) find(line string) lineObject {
	if field := objectField.FindStringSubmatch(line); field != nil {
		if field[1] == n.full {
			return thisObject
		}
		return otherObject
	}
	if n.word.MatchString(line) {
		return thisObject
	}
	return unknownObject
}
