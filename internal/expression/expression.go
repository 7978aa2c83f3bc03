// Package expression compiles and evaluates CEL expressions in the specs of controllers.
//
// The language is that of Kubernetes 1.34: the standard library, optional types, two-variable comprehensions,
// and the extensions strings, lists and sets; math as well. It does not have the types that only the API server
// has, such as quantity and url. Expressions cannot loop without end; a limit of cost bounds what one evaluation
// takes. The package knows neither the specs nor the objects.
package expression

import (
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/ext"
)

// costLimit is the limit of one evaluation, in the units of Kubernetes, whose own limit is 1,000,000: a comparison
// costs 1, and so do ten bytes of a text. cel-go takes time with the square of the cost of a loop: a second at
// this limit, minutes at that one.
const costLimit = 100_000

// Predicate evaluates an expression. Values are those of the declared variables: a json.RawMessage, a
// []json.RawMessage, a string, or nil for null.
type Predicate = func(values map[string]any) (bool, error)

// Compile compiles an expression over variables of any type. Its error has a line for each problem, which
// begins with line and column, such as "1:8: undeclared reference to 'foo'".
func Compile(source string, variables ...string) (Predicate, error) {
	return compile(source, nil, variables)
}

func compile(source string, functions []cel.EnvOption, variables []string) (Predicate, error) {
	env, err := environment()
	if err != nil {
		return nil, err
	}
	declared := functions
	for _, name := range variables {
		declared = append(declared, cel.Variable(name, cel.DynType))
	}
	if env, err = env.Extend(declared...); err != nil {
		return nil, err
	}
	ast, issues := env.Compile(source)
	if issues.Err() != nil {
		return nil, located(issues)
	}
	if result := ast.OutputType(); !result.IsExactType(cel.BoolType) && !result.IsExactType(cel.DynType) {
		return nil, fmt.Errorf("1:1: must return a bool, returns a %s", result)
	}
	program, err := env.Program(ast, cel.EvalOptions(cel.OptOptimize), cel.CustomDecorator(flattenSums), cel.CostTracking(costs{}),
		cel.CostLimit(costLimit))
	if err != nil {
		return nil, err
	}
	return func(values map[string]any) (bool, error) { return evaluate(program, values) }, nil
}

func evaluate(program cel.Program, values map[string]any) (bool, error) {
	result, _, err := program.Eval(documents(values))
	if err != nil {
		return false, runtimeError(err)
	}
	value, isBool := result.Value().(bool)
	if !isBool {
		return false, fmt.Errorf("returned a %s, not a bool", result.Type().TypeName())
	}
	return value, nil
}

func runtimeError(err error) error {
	if strings.Contains(err.Error(), "actual cost limit exceeded") {
		return fmt.Errorf("exceeded the limit of cost, %d", costLimit)
	}
	// The optional syntax and has() are what an author needs to know.
	if strings.HasPrefix(err.Error(), "no such key: ") {
		return fmt.Errorf("%w; has() tells whether a field is set", err)
	}
	return err
}

// located returns the problems of a compilation with their places.
func located(issues *cel.Issues) error {
	var all []error
	for _, one := range issues.Errors() {
		all = append(all, fmt.Errorf("%d:%d: %s", one.Location.Line(), max(1, one.Location.Column()+1),
			strings.TrimSuffix(one.Message, " (in container '')")))
	}
	return errors.Join(all...)
}

// environment returns what all expressions share. It takes milliseconds to build.
var environment = sync.OnceValues(newEnvironment)

func newEnvironment() (*cel.Env, error) {
	env, err := cel.NewEnv(
		cel.CustomTypeAdapter(adapter{types.DefaultTypeAdapter}),
		cel.EagerlyValidateDeclarations(true),
		cel.DefaultUTCTimeZone(true),
		cel.CrossTypeNumericComparisons(true),
		cel.OptionalTypes(),
		cel.ASTValidators(cel.ValidateDurationLiterals(), cel.ValidateTimestampLiterals(), cel.ValidateRegexLiterals(),
			cel.ValidateHomogeneousAggregateLiterals()),
		ext.Strings(ext.StringsVersion(2)),
		ext.Lists(ext.ListsVersion(3)),
		ext.Sets(),
		ext.Math(),
		ext.TwoVarComprehensions(),
	)
	if err != nil {
		return nil, err
	}
	limits, err := limitFunctions(env)
	if err != nil {
		return nil, err
	}
	return env.Extend(limits...)
}
