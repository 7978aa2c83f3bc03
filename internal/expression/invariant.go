package expression

import (
	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
)

// CompileInvariant is Compile with the function ready, which tells whether an object is ready.
func CompileInvariant(source string, variables ...string) (Predicate, error) {
	ready := cel.Function("ready", cel.Overload("ready_dyn", []*cel.Type{cel.DynType}, cel.BoolType, cel.UnaryBinding(isReady)))
	return compile(source, []cel.EnvOption{ready}, variables)
}

// readyConditions are those of which one with the status True makes an object ready.
var readyConditions = []string{"Ready", "Available", "Complete"}

// isReady reports whether an object has such a condition. One that is being deleted is not ready.
func isReady(value ref.Val) ref.Val {
	if memberOf(memberOf(value, "metadata"), "deletionTimestamp") != nil {
		return types.False
	}
	conditions, is := memberOf(memberOf(value, "status"), "conditions").(traits.Lister)
	if !is {
		return types.False
	}
	for each := conditions.Iterator(); each.HasNext() == types.True; {
		condition := each.Next()
		for _, name := range readyConditions {
			if equals(memberOf(condition, "type"), name) && equals(memberOf(condition, "status"), "True") {
				return types.True
			}
		}
	}
	return types.False
}

// memberOf returns a member of an object; nil if it has none.
func memberOf(value ref.Val, name string) ref.Val {
	object, is := value.(traits.Mapper)
	if !is {
		return nil
	}
	member, found := object.Find(types.String(name))
	if !found {
		return nil
	}
	return member
}

func equals(value ref.Val, text string) bool {
	return value != nil && value.Equal(types.String(text)) == types.True
}
