package model

import "errors"

// ErrNotFound is wrapped by errors about what is not known, or not any more.
var ErrNotFound = errors.New("not found")
