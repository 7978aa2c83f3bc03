package cli

import (
	"encoding/xml"
	"fmt"
	"os"

	"github.com/setpoint-dev/setpoint/internal/testcase"
)

// The elements of a report in the format of JUnit that CI systems read.
type (
	junitSuites struct {
		XMLName xml.Name     `xml:"testsuites"`
		Suites  []junitSuite `xml:"testsuite"`
	}
	junitSuite struct {
		Name     string      `xml:"name,attr"`
		Tests    int         `xml:"tests,attr"`
		Failures int         `xml:"failures,attr"`
		Errors   int         `xml:"errors,attr"`
		Time     string      `xml:"time,attr"`
		Cases    []junitCase `xml:"testcase"`
	}
	junitCase struct {
		Name  string `xml:"name,attr"`
		Class string `xml:"classname,attr"`
		File  string `xml:"file,attr"`
		Line  int    `xml:"line,attr"`
		Time  string `xml:"time,attr"`
		// Failure is a response that is not the expected one, Error is why there is none.
		Failure *junitProblem `xml:"failure,omitempty"`
		Error   *junitProblem `xml:"error,omitempty"`
	}
	junitProblem struct {
		Message string `xml:"message,attr"`
		Text    string `xml:",cdata"`
	}
)

// writeJUnit writes the report to a file.
func (r *testReport) writeJUnit(file string) error {
	suite := junitSuite{Name: partCases, Tests: len(r.Cases), Time: seconds(r.Summary.Seconds)}
	for i := range r.Cases {
		one := junitOf(&r.Cases[i])
		switch {
		case one.Error != nil:
			suite.Errors++
		case one.Failure != nil:
			suite.Failures++
		}
		suite.Cases = append(suite.Cases, one)
	}
	suites := junitSuites{Suites: []junitSuite{suite, r.explorationSuite(), r.storySuite()}}
	text, err := xml.MarshalIndent(suites, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(file, append([]byte(xml.Header), append(text, '\n')...), 0o644)
}

func (r *testReport) explorationSuite() junitSuite {
	suite := junitSuite{Name: partExplore, Tests: len(r.Explorations), Time: seconds(0)}
	for i := range r.Explorations {
		e := &r.Explorations[i]
		one := junitCase{Name: e.Name, Class: partExplore, File: e.File, Line: e.Line, Time: seconds(0)}
		switch {
		case e.Error != "":
			one.Error, suite.Errors = &junitProblem{e.Error, e.Error}, suite.Errors+1
		case !e.Passed:
			one.Failure, suite.Failures = &junitProblem{fmt.Sprintf("%d properties are violated", len(e.Report.Violations)), e.Report.Text()}, suite.Failures+1
		}
		if e.Report != nil {
			one.Time = seconds(e.Report.Seconds)
		}
		suite.Cases = append(suite.Cases, one)
	}
	return suite
}

func (r *testReport) storySuite() junitSuite {
	suite := junitSuite{Name: partReplay, Tests: len(r.Stories), Time: seconds(0)}
	for i := range r.Stories {
		s := &r.Stories[i]
		one := junitCase{Name: s.Name, Class: partReplay, File: s.File, Line: s.Line, Time: seconds(s.Seconds)}
		switch {
		case s.Error != "":
			one.Error, suite.Errors = &junitProblem{s.Error, s.Error}, suite.Errors+1
		case !s.Passed:
			one.Failure, suite.Failures = &junitProblem{"the story still violates its property", s.Violation}, suite.Failures+1
		}
		suite.Cases = append(suite.Cases, one)
	}
	return suite
}

func junitOf(c *testcase.Result) junitCase {
	one := junitCase{Name: c.Name, Class: c.Controller + "." + c.Hook, File: c.File, Line: c.Line, Time: seconds(c.Seconds)}
	switch {
	case c.Error != "":
		one.Error = &junitProblem{c.Error, c.Error}
	case c.Difference != "":
		one.Failure = &junitProblem{"the response differs from the expected one", c.Difference}
	}
	return one
}

func seconds(s float64) string { return fmt.Sprintf("%.3f", s) }
