package model

import "errors"

// ErrNotFound is wrapped by errors about unknown controllers, objects and runs.
var ErrNotFound = errors.New("not found")
