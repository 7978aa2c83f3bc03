package test

import (
	"encoding/xml"
	"fmt"
	"os"
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

// add adds a test that took some seconds. Err is why it has no result, failure what is wrong with the result.
func (s *junitSuite) add(one junitCase, took float64, err string, failure *junitProblem) {
	one.Time = seconds(took)
	switch {
	case err != "":
		one.Error = &junitProblem{err, err}
		s.Errors++
	case failure != nil:
		one.Failure = failure
		s.Failures++
	}
	s.took += took
	s.Tests, s.Time, s.Cases = s.Tests+1, seconds(s.took), append(s.Cases, one)
}

// problem returns a problem, if there is one.
func problem(is bool, message, text string) *junitProblem {
	if !is {
		return nil
	}
	return &junitProblem{message, text}
}

func newSuite(name string) junitSuite { return junitSuite{Name: name, Time: seconds(0)} }

func (r *testReport) caseSuite() junitSuite {
	suite := newSuite(partCases)
	for i := range r.Cases {
		c := &r.Cases[i]
		one := junitCase{Name: c.Name, Class: c.Controller + "." + c.Hook, File: c.File, Line: c.Line}
		suite.add(one, c.Seconds, c.Error, problem(c.Difference != "", "the response differs from the expected one", c.Difference))
	}
	return suite
}

func (r *testReport) explorationSuite() junitSuite {
	suite := newSuite(partExplore)
	for i := range r.Explorations {
		e := &r.Explorations[i]
		if e.Interrupted {
			continue // It is one of those that were not run.
		}
		var failure *junitProblem
		took := 0.0
		if e.Report != nil {
			took, failure = e.Report.Seconds, problem(!e.Passed, e.failure(), e.Report.Text())
		}
		suite.add(junitCase{Name: e.Name, Class: partExplore, File: e.File, Line: e.Line}, took, e.Error, failure)
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
		suite.add(junitCase{Name: s.Name, Class: partReplay, File: s.File, Line: s.Line}, s.Seconds, s.Error,
			problem(!s.Passed, "the story still violates its property", s.Violation))
	}
	return suite
}

func seconds(s float64) string { return fmt.Sprintf("%.3f", s) }
