package expression

import (
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"github.com/google/cel-go/interpreter"
)

// flatSum is the sum of two lists as one list. That of cel-go refers to both, and walks through all parts for its
// size and for each element: a list that is doubled n times would take 4^n steps, which no cost counts.
type flatSum struct{ interpreter.InterpretableCall }

// flattenSums decorates additions.
func flattenSums(step interpreter.Interpretable) (interpreter.Interpretable, error) {
	if call, isCall := step.(interpreter.InterpretableCall); isCall && call.Function() == operators.Add {
		return flatSum{call}, nil
	}
	return step, nil
}

// Eval implements interpreter.Interpretable.
func (s flatSum) Eval(variables interpreter.Activation) ref.Val {
	sum := s.InterpretableCall.Eval(variables)
	list, isList := sum.(traits.Lister)
	// Loops append to a list of their own, which is flat.
	if _, appended := sum.(traits.MutableLister); !isList || appended {
		return sum
	}
	size, isSize := list.Size().(types.Int)
	if !isSize || size > amountLimit {
		return types.NewErr("%s: its arguments are too large", operators.Add)
	}
	elements := make([]ref.Val, 0, size)
	for each := list.Iterator(); each.HasNext() == types.True; {
		elements = append(elements, each.Next())
	}
	return types.NewRefValList(types.DefaultTypeAdapter, elements)
}
