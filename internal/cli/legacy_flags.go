package cli

import (
	"fmt"
	"strconv"

	"github.com/spf13/pflag"
)

// legacyFlag is a flag of Metacontroller's command line. It is understood, so
// that an old command line can be pasted, but not shown.
type legacyFlag struct {
	name string
	// valueOptional says that it may be given without a value, which is true then.
	valueOptional bool
	// replacement is the flag that says it; empty where nothing has to be said.
	replacement string
	// translate makes a value of now of one of the old flag; nil where they
	// have the same. A value that now need not be told is "".
	translate func(value string) (string, error)
	// hint is what a user should know beside the new name.
	hint string
}

// legacyFlags are all of them but those that have kept name and meaning:
// kubeconfig, workers, events-qps, events-burst.
func legacyFlags() []legacyFlag {
	return []legacyFlag{
		{name: "discovery-interval", hint: "not needed: a kind is looked up when a controller names it, and when its definition changes"},
		{name: "cache-flush-interval", replacement: "resync-period", hint: "caches need no flushing; what this did is to have all objects synced, and that is off by default"},
		{name: "metrics-address", replacement: "address", translate: addressOrNone, hint: "health and metrics are served at one address"},
		{name: "client-go-qps", replacement: "kube-api-qps", hint: "without it there is no limit but the API server's own"},
		{name: "client-go-burst", replacement: "kube-api-burst"},
		{name: "pprof-address", hint: "not opened: --profiling serves profiles at --address"},
		{name: "leader-election", valueOptional: true, replacement: "leader-elect", hint: "on by default inside a cluster"},
		{name: "leader-election-resource-lock", hint: "not needed: the lock is a Lease"},
		{name: "leader-election-namespace", replacement: "leader-elect-resource-namespace"},
		{name: "leader-election-id", replacement: "leader-elect-resource-name", hint: "with Metacontroller's own (metacontroller), the two elect one of them"},
		{name: "health-probe-bind-address", replacement: "health-address", translate: addressOrNone, hint: "also served at --address"},
		{name: "target-label-selector", replacement: "selector"},
		{name: "apply-strategy-ssa-field-manager", replacement: "field-manager"},
		{name: "zap-devel", valueOptional: true, replacement: "log-level", translate: zapDevelLevel},
		{name: "zap-encoder", replacement: "log-format", translate: logFormat},
		{name: "zap-log-level", replacement: "log-level", translate: logLevel, hint: "levels up to 4 are info, those above debug"},
		{name: "zap-stacktrace-level", hint: "not needed: a stack trace is logged where it tells something"},
		{name: "zap-time-encoding", hint: "not needed: times are written as in RFC 3339"},
	}
}

// legacyStrategies are Metacontroller's words for the values of
// --apply-strategy, which has kept its name.
func legacyStrategies() map[string]string {
	return map[string]string{"dynamic-apply": merge, "server-side-apply": server}
}

// legacyFlagSet are the old flags of a command line.
type legacyFlagSet struct {
	set   *pflag.FlagSet
	flags []legacyFlag
}

// legacyNote is what a user is told of an old flag.
type legacyNote struct{ flag, replacement string }

// registerLegacy adds the old flags, hidden.
func registerLegacy(set *pflag.FlagSet) *legacyFlagSet {
	f := &legacyFlagSet{set: set, flags: legacyFlags()}
	for _, old := range f.flags {
		set.String(old.name, "", old.hint)
		flag := set.Lookup(old.name)
		flag.Hidden = true
		if old.valueOptional {
			flag.NoOptDefVal = yes
		}
	}
	return f
}

// applyLegacy gives our flags what the old ones say. A flag of ours that is given
// itself is left as it is.
func (f *runFlags) applyLegacy() ([]legacyNote, error) {
	given := map[string]bool{}
	f.set.Visit(func(flag *pflag.Flag) { given[flag.Name] = true })
	var notes []legacyNote
	for _, old := range f.legacy.flags {
		if !given[old.name] {
			continue
		}
		note, err := f.legacy.apply(old, given[old.replacement])
		if err != nil {
			return nil, err
		}
		notes = append(notes, note)
	}
	return notes, nil
}

func (f *legacyFlagSet) apply(old legacyFlag, given bool) (legacyNote, error) {
	note := legacyNote{flag: "--" + old.name, replacement: old.hint}
	if old.replacement == "" {
		return note, nil
	}
	value := f.set.Lookup(old.name).Value.String()
	if old.translate != nil {
		translated, err := old.translate(value)
		if err != nil {
			return note, fmt.Errorf("--%s: %w", old.name, err)
		}
		value = translated
	}
	note.replacement = fmt.Sprintf("--%s=%s", old.replacement, value)
	if given {
		note.replacement = "overruled by --" + old.replacement
		return note, nil
	}
	if err := f.set.Lookup(old.replacement).Value.Set(value); err != nil {
		return note, fmt.Errorf("--%s %q: %w", old.name, value, err)
	}
	return note, nil
}

// addressOrNone reads an address of which "0" means none.
func addressOrNone(value string) (string, error) {
	if value == "0" {
		return "", nil
	}
	return value, nil
}

func zapDevelLevel(value string) (string, error) {
	devel, err := strconv.ParseBool(value)
	if devel {
		return "debug", err
	}
	return "info", err
}

func logFormat(value string) (string, error) {
	switch value {
	case "json":
		return "json", nil
	case "console":
		return "text", nil
	}
	return "", fmt.Errorf("%q is none of json, console", value)
}

// zapDebugLevel is the first of zap's levels at which Metacontroller logged what it
// found different in children.
const zapDebugLevel = 5

func logLevel(value string) (string, error) {
	switch value {
	case "debug", "info", "error":
		return value, nil
	case "panic":
		return "error", nil
	}
	number, err := strconv.Atoi(value)
	switch {
	case err != nil || number < 1:
		return "", fmt.Errorf("%q is none of debug, info, error, panic, nor a number above 0", value)
	case number < zapDebugLevel:
		return "info", nil
	}
	return "debug", nil
}
