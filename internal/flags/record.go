package flags

import (
	"flag"
	"fmt"

	"github.com/setpoint-dev/setpoint/internal/manager"
	"github.com/setpoint-dev/setpoint/internal/recording"
)

// RecordFlags are the flags of continuous recordings, which `setpoint dev` has too.
type RecordFlags struct{ file, size string }

// Register registers the flags.
func (f *RecordFlags) Register(set *flag.FlagSet) {
	set.StringVar(&f.file, "record", "", "`file` to record hook calls to, for setpoint record --cases; it is renamed to FILE.1 when it "+
		"has half of --record-max-size")
	set.StringVar(&f.size, "record-max-size", "256Mi", "maximum `bytes` of the recording, with FILE.1")
}

// Check validates the values.
func (f *RecordFlags) Check() error {
	if _, err := ParseRecordSize(f.size); err != nil {
		return fmt.Errorf("--record-max-size %w", err)
	}
	return nil
}

// Options returns the options that the flags set, which Check has validated.
func (f *RecordFlags) Options() manager.Recording {
	size, _ := ParseRecordSize(f.size)
	return manager.Recording{File: f.file, MaxBytes: size}
}

// ParseRecordSize parses the size of a recording, such as 256Mi.
func ParseRecordSize(text string) (int, error) {
	bytes, err := manager.ParseBytes(text)
	if err == nil && bytes < recording.MinFileSize {
		err = fmt.Errorf("must be at least 1Mi, not %s", text)
	}
	return bytes, err
}
