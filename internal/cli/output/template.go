package output

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"

	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/client-go/util/jsonpath"

	"github.com/setpoint-dev/setpoint/internal/diff"
)

// parseJSONPath returns a function that prints the JSON of a value by a JSONPath template. Missing fields are empty.
func parseJSONPath(text string) (printFunc, error) {
	path := jsonpath.New("output").AllowMissingKeys(true)
	if err := path.Parse(text); err != nil {
		return nil, err
	}
	return func(out io.Writer, value any) error {
		encoded, err := json.Marshal(value)
		if err != nil {
			return err
		}
		var decoded any
		if err := utiljson.Unmarshal(encoded, &decoded); err != nil {
			return err
		}
		var text bytes.Buffer
		if err := path.Execute(&text, decoded); err != nil {
			return fmt.Errorf("execute the template of --output: %w", err)
		}
		_, err = io.WriteString(out, diff.EscapeInvisible(text.String()))
		return err
	}, nil
}
