package failure

import "errors"

// ErrNotFound is wrapped by errors about unknown kinds, objects, controllers and runs.
var ErrNotFound = errors.New("not found")
