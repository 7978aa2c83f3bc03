package expression

import (
	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/decls"
	"github.com/google/cel-go/common/functions"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/overloads"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
)

// amounts are upper bounds of what functions make of their arguments, or of their steps, where that can be far
// more than the arguments. They are checked before the call: cel-go counts its cost after it.
var amounts = map[string]func(args []ref.Val) uint64{
	"distinct":    func(args []ref.Val) uint64 { return weight(args[0]) * weight(args[0]) },
	"flatten":     weightOf,
	"format":      func(args []ref.Val) uint64 { return weight(args[0]) * weightOf(args[1:]) },
	"join":        func(args []ref.Val) uint64 { return weight(args[0]) * max(1, weightOf(args[1:])) },
	"lists.range": rangeAmount,
	"replace": func(args []ref.Val) uint64 {
		return (weight(args[0]) + 1) * max(1, weight(args[2]))
	},
	"sets.contains":   product,
	"sets.equivalent": product,
	"sets.intersects": product,
}

// amountLimit is what one call may make of its arguments, in elements and bytes. To read more costs more than
// an evaluation may.
const amountLimit = 10 * costLimit

func product(args []ref.Val) uint64 { return weight(args[0]) * weight(args[1]) }

func rangeAmount(args []ref.Val) uint64 {
	n, _ := args[0].(types.Int)
	return uint64(max(0, n))
}

// weight returns the size of a value with all that it contains, or something over amountLimit.
func weight(value ref.Val) uint64 { return atLeast(value, amountLimit) }

// atLeast counts until there is more than enough.
func atLeast(value ref.Val, enough uint64) uint64 {
	sum := uint64(1)
	switch value := value.(type) {
	case types.String:
		return sum + uint64(len(value))
	case types.Bytes:
		return sum + uint64(len(value))
	case traits.Lister:
		for each := value.Iterator(); sum <= enough && each.HasNext() == types.True; {
			sum += atLeast(each.Next(), enough-sum)
		}
	case traits.Mapper:
		for each := value.Iterator(); sum <= enough && each.HasNext() == types.True; {
			key := each.Next()
			sum += atLeast(key, enough-sum) + atLeast(value.Get(key), enough-sum)
		}
	}
	return sum
}

func weightOf(values []ref.Val) uint64 {
	var sum uint64
	for _, value := range values {
		sum += weight(value)
	}
	return sum
}

// limitFunctions returns the functions in amounts with the check before them.
func limitFunctions(env *cel.Env) ([]cel.EnvOption, error) {
	var all []cel.EnvOption
	for name, amount := range amounts {
		function := env.Functions()[name]
		bindings, err := function.Bindings()
		if err != nil {
			return nil, err
		}
		bound := map[string]*functions.Overload{}
		for _, binding := range bindings {
			bound[binding.Operator] = binding
		}
		var overloads []cel.FunctionOpt
		for _, overload := range function.OverloadDecls() {
			overloads = append(overloads, limited(overload, bound[overload.ID()], amount))
		}
		all = append(all, cel.Function(name, overloads...))
	}
	return all, nil
}

// limited declares an overload again, with a check before the function.
func limited(o *decls.OverloadDecl, f *functions.Overload, amount func([]ref.Val) uint64) cel.FunctionOpt {
	guard := func(call func(args []ref.Val) ref.Val) func(args ...ref.Val) ref.Val {
		return func(args ...ref.Val) ref.Val {
			if amount(args) > amountLimit {
				return types.NewErr("%s: its arguments are too large", o.ID())
			}
			return call(args)
		}
	}
	var binding cel.OverloadOpt
	switch {
	case f.Unary != nil:
		call := guard(func(args []ref.Val) ref.Val { return f.Unary(args[0]) })
		binding = cel.UnaryBinding(func(arg ref.Val) ref.Val { return call(arg) })
	case f.Binary != nil:
		call := guard(func(args []ref.Val) ref.Val { return f.Binary(args[0], args[1]) })
		binding = cel.BinaryBinding(func(left, right ref.Val) ref.Val { return call(left, right) })
	default:
		binding = cel.FunctionBinding(guard(func(args []ref.Val) ref.Val { return f.Function(args...) }))
	}
	if o.IsMemberFunction() {
		return cel.MemberOverload(o.ID(), o.ArgTypes(), o.ResultType(), binding)
	}
	return cel.Overload(o.ID(), o.ArgTypes(), o.ResultType(), binding)
}

// costs are those of functions that read all of their arguments. cel-go counts them as 1: some it does not know,
// and others it knows by the types of arguments, which are not known before the evaluation.
type costs struct{}

// readers are those functions.
var readers = map[string]bool{
	"charAt": true, "indexOf": true, "lastIndexOf": true, "lowerAscii": true, "upperAscii": true, "replace": true, "split": true,
	"substring": true, "trim": true, "join": true, "format": true, "strings.quote": true,
	"distinct": true, "flatten": true, "slice": true, "sort": true, "reverse": true, "@sortByAssociatedKeys": true,
	"sets.contains": true, "sets.equivalent": true, "sets.intersects": true,
	operators.Equals: true, operators.NotEquals: true, operators.In: true, operators.OldIn: true,
	operators.Less: true, operators.LessEquals: true, operators.Greater: true, operators.GreaterEquals: true, operators.Add: true,
}

// CallCost implements interpreter.ActualCostEstimator.
func (costs) CallCost(function, _ string, args []ref.Val, result ref.Val) *uint64 {
	switch {
	case readers[function]:
		return cost(weightOf(args) + weight(result))
	case function == overloads.Size:
		if text, isText := args[0].(types.String); isText {
			return cost(uint64(len(text)))
		}
	}
	return nil
}

func cost(read uint64) *uint64 {
	return new(1 + read/10)
}
