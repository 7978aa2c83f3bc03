//go:build !linux

package script

import "errors"

func attachTo(int) error { return errors.ErrUnsupported }
