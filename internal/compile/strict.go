package compile

import (
	"errors"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"

	metacontroller "github.com/setpoint-dev/setpoint/api/metacontroller/v1alpha1"
	setpoint "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// CheckFields returns an error that names the fields of a controller object from a file that its
// kind does not have. The API server refuses or drops them before they are stored. Compile ignores
// them: those of a newer CRD are no fault of the object.
func CheckFields(o *object.Object) error {
	scheme := runtime.NewScheme()
	if err := errors.Join(setpoint.AddToScheme(scheme), metacontroller.AddToScheme(scheme)); err != nil {
		return err
	}
	decoder := json.NewSerializerWithOptions(json.DefaultMetaFactory, scheme, scheme, json.SerializerOptions{Strict: true})
	_, _, err := decoder.Decode(o.JSON(), nil, nil)
	if strict, is := runtime.AsStrictDecodingError(err); is {
		return utilerrors.NewAggregate(strict.Errors())
	}
	return nil // Compile reports other errors in its own words.
}
