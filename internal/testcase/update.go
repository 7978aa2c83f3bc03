package testcase

import (
	"errors"

	"github.com/setpoint-dev/setpoint/internal/dev/manifest"
	"github.com/setpoint-dev/setpoint/internal/lists"
)

// Update rewrites the expectations of failed cases in their files: the fields that they have, or all of the
// response if they have none. It returns the results as they are now.
func Update(results []Result) ([]Result, error) {
	byFile := map[string][]manifest.Replacement{}
	updated := make([]Result, len(results))
	for i, r := range results {
		updated[i] = r
		if r.Passed || r.Response == nil {
			continue
		}
		if _, expected := r.of.spec.Expect[fieldError]; r.Response[fieldError] != nil && !expected {
			continue // A hook that fails is no new expectation.
		}
		byFile[r.File] = append(byFile[r.File], manifest.Replacement{Document: r.of.Document, Field: "expect",
			Value: r.of.expectation(r.Response)})
		updated[i].Passed, updated[i].Updated, updated[i].Difference, updated[i].Error = true, true, "", ""
	}
	problems := lists.Map(sortedByKey(byFile), manifest.Rewrite)
	return updated, errors.Join(problems...)
}

// expectation returns the expect of a case that the response matches.
func (c *Case) expectation(got fields) map[string]any {
	all := map[string]any{}
	for name, value := range got {
		_, given := c.spec.Expect[name]
		if given || len(c.spec.Expect) == 0 || name == fieldError || name == fieldCalled {
			all[name] = value
		}
	}
	if got[fieldError] != nil || got[fieldCalled] != nil {
		return all // Nothing else was compared.
	}
	for name := range c.spec.Expect {
		if _, has := all[name]; !has && name != fieldError && name != fieldCalled {
			all[name] = c.empty(name)
		}
	}
	if len(all) == 0 {
		return got // The hook has responded in place of what was expected.
	}
	return all
}

// empty returns the value of a field that the response does not have.
func (c *Case) empty(name string) any {
	value, err := c.normal(name, c.spec.Expect[name])
	if err != nil {
		return nil
	}
	switch value.(type) {
	case []any:
		return []any{}
	case map[string]any:
		return map[string]any{}
	case bool:
		return false
	case string:
		return ""
	}
	return 0
}
