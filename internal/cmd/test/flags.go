package test

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/setpoint-dev/setpoint/internal/cli/command"
	"github.com/setpoint-dev/setpoint/internal/cli/offline"
	"github.com/setpoint-dev/setpoint/internal/cli/output"
	"github.com/setpoint-dev/setpoint/internal/explore"
	"github.com/setpoint-dev/setpoint/internal/workspace"
)

// testFlags are the flags of `setpoint test`.
type testFlags struct {
	files   *offline.Flags
	only    []string
	run     string
	limits  exploreFlags
	update  bool
	verbose bool
	junit   string
	output.PrintFlags
}

// The parts of --only.
const (
	partCases   = "cases"
	partExplore = "explore"
	partReplay  = "replay"
)

func testParts() []string { return []string{partCases, partExplore, partReplay} }

// check validates the flags and returns the filter of names.
func (f *testFlags) check(args []string) (*regexp.Regexp, error) {
	if len(args) == 0 {
		return nil, command.UsageErrorf("no files given; give a folder with a setpoint.yaml, or manifests and cases")
	}
	for _, part := range f.only {
		if !slices.Contains(testParts(), part) {
			return nil, command.UsageErrorf("--only %q: must be %s", part, strings.Join(testParts(), ", "))
		}
	}
	if f.update && !f.runs(partCases) {
		return nil, command.UsageErrorf("--update is for cases; add cases to --only, or omit --update")
	}
	if err := cmp.Or(f.limits.check(), checkOutput("--junit", f.junit)); err != nil {
		return nil, command.UsageError(err)
	}
	names, err := regexp.Compile(f.run)
	if err != nil {
		return nil, command.UsageErrorf("--run: %w", err)
	}
	return names, nil
}

// checkOutput reports a file that cannot be written when a long run is over.
func checkOutput(flag, file string) error {
	if file == "" {
		return nil
	}
	if info, err := os.Stat(file); err == nil && info.IsDir() {
		return fmt.Errorf("%s: %s is a folder; give a file", flag, file)
	}
	switch info, err := os.Stat(filepath.Dir(file)); {
	case errors.Is(err, os.ErrNotExist):
		return fmt.Errorf("%s: the folder %s does not exist", flag, filepath.Dir(file))
	case err != nil:
		return fmt.Errorf("%s: %w", flag, err)
	case !info.IsDir():
		return fmt.Errorf("%s: %s is no folder", flag, filepath.Dir(file))
	}
	return nil
}

// runs reports whether a part is chosen.
func (f *testFlags) runs(part string) bool { return len(f.only) == 0 || slices.Contains(f.only, part) }

// exploreFlags are the bounds of explorations that have none of their own.
type exploreFlags struct {
	bounds  explore.Bounds
	stories string
}

func (f *exploreFlags) register(set *pflag.FlagSet) {
	set.IntVar(&f.bounds.Edits, "edits", 2, "edits of users to explore, unless an Exploration says how many")
	set.IntVar(&f.bounds.Crashes, "crashes", 1, "crashes of Setpoint to explore, unless an Exploration says how many")
	set.IntVar(&f.bounds.Faults, "faults", 1,
		"faults to explore, unless an Exploration says how many: refused writes, failing pods, changes by other clients")
	set.DurationVar(&f.bounds.Time, "time", 30*time.Second, "how long an exploration may take, unless it says how long")
	set.StringVar(&f.stories, "stories", "stories", "`folder` to write stories of violations to")
}

// check reports values that make no sense.
func (f *exploreFlags) check() error {
	if err := f.bounds.Check(); err != nil {
		return errors.New("--" + strings.TrimPrefix(err.Error(), "bounds."))
	}
	if f.bounds.Time <= 0 {
		return fmt.Errorf("--time: must be more than 0, is %s", f.bounds.Time)
	}
	return nil
}

func (f *testFlags) filtered() string {
	if f.run == "" {
		return ""
	}
	return fmt.Sprintf(" has a name that matches --run %q", f.run)
}

// missing says what to add if there is no test.
func (f *testFlags) missing(w *workspace.Workspace) string {
	const examples = "docs/test.md has examples"
	switch {
	case f.run != "" || len(w.Controllers) == 0 || !f.runs(partExplore):
		return examples
	case f.update:
		return "--update is for cases, and there is none; without it, each controller is explored with its samples"
	}
	var kinds []string
	for _, c := range w.Controllers {
		managed, _, _ := c.Resources()
		for _, resource := range managed {
			kinds = append(kinds, resource.Kind)
		}
	}
	if len(kinds) == 0 {
		return examples
	}
	slices.Sort(kinds)
	return fmt.Sprintf("there is no sample of %s to explore: add a manifest of such an object, or a file of kind Exploration; %s",
		strings.Join(slices.Compact(kinds), ", "), examples)
}
