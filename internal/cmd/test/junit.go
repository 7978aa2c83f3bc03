package test

import (
	"encoding/xml"
	"fmt"
	"os"
	"slices"

	"github.com/setpoint-dev/setpoint/internal/lists"
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
	suites := lists.Map([]string{partCases, partExplore, partReplay}, func(name string) junitSuite {
		return junitSuite{Name: name, Time: seconds(0)}
	})
	for _, one := range r.results(testStyle{}) {
		if one.state != ended {
			suites[slices.IndexFunc(suites, func(s junitSuite) bool { return s.Name == one.suite })].add(one)
		}
	}
	text, err := xml.MarshalIndent(junitSuites{Suites: suites}, "", "  ")
	if err == nil {
		err = os.WriteFile(file, append([]byte(xml.Header), append(text, '\n')...), 0o644)
	}
	if err != nil {
		return fmt.Errorf("--junit: %w", err)
	}
	return nil
}

// add adds a test.
func (s *junitSuite) add(one result) {
	test := junitCase{Name: one.name, Class: one.class, File: one.file, Line: one.line, Time: seconds(one.took)}
	switch {
	case one.err != "":
		test.Error = &junitProblem{one.err, one.err}
		s.Errors++
	case one.state == failed:
		test.Failure = &junitProblem{one.failure, one.text}
		s.Failures++
	}
	s.took += one.took
	s.Tests, s.Time = s.Tests+1, seconds(s.took)
	s.Cases = append(s.Cases, test)
}

func seconds(s float64) string { return fmt.Sprintf("%.3f", s) }
