package form

import (
	"fmt"

	"github.com/setpoint-dev/setpoint/internal/failure"
)

// Problem is a message about a field.
type Problem struct {
	// Field is a path such as "spec.items[0].name".
	Field   string
	Message string

	// at is the field, if known.
	at *Field
}

type result struct {
	value any
	// sent reports whether there is a value, touched whether the user set it: a required object
	// is sent with its parent, but does not cause the parent to be sent.
	sent, touched bool
	problems      []Problem
}

// Object returns the object of the fields, with numbers as json.Number, and the invalid fields.
// Call it once before AddProblems, so that rows know their index.
func (f *Form) Object(root *Field) (object map[string]any, problems []Problem) {
	made := root.result()
	object, ok := made.value.(map[string]any)
	if !ok {
		object = map[string]any{}
	}
	if f.options.Kind != "" {
		object["apiVersion"], object["kind"] = f.options.APIVersion, f.options.Kind
	}
	return object, made.problems
}

func (f *Field) result() result {
	switch {
	case f.YAML:
		return f.yamlResult()
	case f.Type == List:
		return f.listResult()
	case f.Type == Map:
		return f.mapResult()
	case f.Type == Object:
		return f.objectResult()
	case f.Text == "":
		return result{}
	}
	value, problem := parseScalar(f)
	made := result{value: value, sent: problem == "", touched: f.Touched()}
	if problem != "" {
		made.touched, made.problems = true, []Problem{f.newProblem(problem)}
	}
	return made
}

func (f *Field) newProblem(message string) Problem {
	return Problem{Field: f.Path, Message: message, at: f}
}

func (f *Field) yamlResult() result {
	value, err := ParseYAML(f.Text)
	switch {
	case err != nil:
		return result{touched: true, problems: []Problem{f.newProblem(err.Error())}}
	case value == nil:
		return result{}
	}
	return result{value: value, sent: true, touched: true}
}

func (f *Field) objectResult() result {
	members, touched := map[string]any{}, f.SendEmpty
	var problems []Problem
	for _, parts := range [][]*Field{f.Fields, f.More} {
		for _, part := range parts {
			made := part.result()
			touched = touched || made.touched
			problems = append(problems, made.problems...)
			switch {
			case made.sent:
				members[part.Label] = made.value
			case part.Required && len(made.problems) == 0:
				problems = append(problems, part.newProblem("Required."))
			}
		}
	}
	if !touched && !f.Required {
		return result{}
	}
	return result{value: members, sent: true, touched: touched, problems: problems}
}

func (f *Field) listResult() result {
	made := result{sent: f.Required}
	elements := []any{}
	for _, row := range f.Rows {
		one := row.result()
		row.at = -1
		made.problems = append(made.problems, one.problems...)
		if one.sent && one.touched || len(one.problems) > 0 {
			row.at = len(elements)
			elements = append(elements, one.value)
			made.sent, made.touched = true, true
		}
	}
	made.value = elements
	return made
}

func (f *Field) mapResult() result {
	made := result{sent: f.Required}
	members := map[string]any{}
	for i, row := range f.Rows {
		one := row.result()
		key := row.Key.Text
		_, taken := members[key]
		switch {
		case key == "" && !one.touched && len(one.problems) == 0:
			continue
		case key == "":
			one.problems = append(one.problems, row.Key.newProblem(fmt.Sprintf("Row %d needs a key.", i+1)))
		case taken:
			one.problems = append(one.problems, row.Key.newProblem(fmt.Sprintf("Duplicate key %q.", failure.Truncate(key, 60))))
		case !one.sent && len(one.problems) == 0:
			if one.value = row.emptyValue(); one.value == nil {
				one.problems = []Problem{row.newProblem("Required.")}
			}
		}
		made.sent, made.touched = true, true
		members[key] = one.value
		made.problems = append(made.problems, one.problems...)
	}
	made.value = members
	return made
}

// emptyValue returns the value of a key without input; nil if there is none.
func (f *Field) emptyValue() any {
	switch {
	case f.YAML:
		return nil
	case f.Type == String:
		return ""
	case f.Type == List:
		return []any{}
	case f.Type == Object, f.Type == Map:
		return map[string]any{}
	}
	return nil
}
