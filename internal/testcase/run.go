package testcase

import (
	"context"
	"errors"
	"time"
)

// Result is the result of a case.
type Result struct {
	Name string `json:"name"`
	// File and Line are where the case is.
	File string `json:"file"`
	Line int    `json:"line"`
	// Controller is such as CompositeController/rolling-sets, Hook as in a Case.
	Controller string `json:"controller"`
	Hook       string `json:"hook"`
	Passed     bool   `json:"passed"`
	// Updated means that the expectation was rewritten.
	Updated bool    `json:"updated,omitempty"`
	Seconds float64 `json:"seconds"`
	// Difference has lines of YAML: those expected with -, those of the response with +.
	Difference string `json:"difference,omitempty"`
	// Error is why there is no response to compare.
	Error string `json:"error,omitempty"`
	// Response is what the hook returned.
	Response fields `json:"response,omitempty"`

	// of is the case.
	of *Case
}

// Run calls the hook of a case and compares.
func Run(ctx context.Context, c *Case) Result {
	result := Result{
		Name: c.Name, File: c.Document.File, Line: c.Document.Line,
		Controller: c.target.controller.String(), Hook: c.target.hook, of: c,
	}
	began := time.Now()
	got, err := c.call(ctx)
	result.Seconds = time.Since(began).Seconds()
	if failed, ofHook := errors.AsType[*responseError](err); ofHook {
		got, err = fields{fieldError: failed.Error()}, nil
	}
	result.Response = got
	if err == nil && c.spec.Expect == nil {
		err = errNothingExpected
	}
	if err == nil {
		result.Difference, err = c.compare(got)
	}
	if err != nil {
		result.Error = err.Error()
	}
	result.Passed = result.Difference == "" && result.Error == ""
	return result
}

var errNothingExpected = errors.New("expect: required: what the hook should respond; `setpoint test --update` writes it")
