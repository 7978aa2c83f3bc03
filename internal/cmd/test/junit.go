package test

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

		took float64
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

// writeJUnit writes the report to a file; "" for none.
func (r *testReport) writeJUnit(file string) error {
	if file == "" {
		return nil
	}
	text, err := xml.MarshalIndent(junitSuites{Suites: []junitSuite{r.caseSuite(), r.explorationSuite(), r.storySuite(),
		r.recordingSuite()}}, "", "  ")
	if err == nil {
		err = os.WriteFile(file, append([]byte(xml.Header), append(text, '\n')...), 0o644)
	}
	if err != nil {
		return fmt.Errorf("--junit: %w", err)
	}
	return nil
}

// add adds a test that took some seconds, and counts its problem.
func (s *junitSuite) add(one junitCase, took float64) {
	one.Time = seconds(took)
	switch {
	case one.Error != nil:
		s.Errors++
	case one.Failure != nil:
		s.Failures++
	}
	s.took += took
	s.Tests, s.Time, s.Cases = s.Tests+1, seconds(s.took), append(s.Cases, one)
}

func newSuite(name string) junitSuite { return junitSuite{Name: name, Time: seconds(0)} }

func (r *testReport) caseSuite() junitSuite {
	suite := newSuite(partCases)
	for i := range r.Cases {
		suite.add(junitOf(&r.Cases[i]), r.Cases[i].Seconds)
	}
	return suite
}

func (r *testReport) explorationSuite() junitSuite {
	suite := newSuite(partExplore)
	for i := range r.Explorations {
		e := &r.Explorations[i]
		one := junitCase{Name: e.Name, Class: partExplore, File: e.File, Line: e.Line}
		switch {
		case e.Interrupted:
			continue // It is one of those that were not run.
		case e.Error != "":
			one.Error = &junitProblem{e.Error, e.Error}
		case !e.Passed:
			one.Failure = &junitProblem{e.failure(), e.Report.Text()}
		}
		took := 0.0
		if e.Report != nil {
			took = e.Report.Seconds
		}
		suite.add(one, took)
	}
	return suite
}

// failure says in one line why an exploration without an error has failed.
func (e *explorationResult) failure() string {
	if violated := len(e.Report.Violations); violated > 0 {
		return fmt.Sprintf("%d properties are violated", violated)
	}
	for _, u := range e.Report.Unmade {
		if u.Failed {
			return u.String()
		}
	}
	return ""
}

func (r *testReport) storySuite() junitSuite {
	suite := newSuite(partReplay)
	for i := range r.Stories {
		s := &r.Stories[i]
		one := junitCase{Name: s.Name, Class: partReplay, File: s.File, Line: s.Line}
		switch {
		case s.Error != "":
			one.Error = &junitProblem{s.Error, s.Error}
		case !s.Passed:
			one.Failure = &junitProblem{"the story still violates its property", s.Violation}
		}
		suite.add(one, s.Seconds)
	}
	return suite
}

func junitOf(c *testcase.Result) junitCase {
	one := junitCase{Name: c.Name, Class: c.Controller + "." + c.Hook, File: c.File, Line: c.Line}
	switch {
	case c.Error != "":
		one.Error = &junitProblem{c.Error, c.Error}
	case c.Difference != "":
		one.Failure = &junitProblem{"the response differs from the expected one", c.Difference}
	}
	return one
}

func seconds(s float64) string { return fmt.Sprintf("%.3f", s) }
