package plan

import (
	"fmt"
	"strings"
)

// String returns a line for each action with the number of its stage.
func (p Plan) String() string {
	var text strings.Builder
	for i, stage := range p.Stages {
		for _, action := range stage {
			fmt.Fprintf(&text, "%d. %s\n", i+1, action)
		}
	}
	return text.String()
}

// String returns text such as "update Service shop/web: spec.ports[0].port differs".
func (a Action) String() string { return fmt.Sprintf("%s %s: %s", a.Verb, a.Ref, a.Reason) }
