package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/setpoint-dev/setpoint/internal/flags"
	"sigs.k8s.io/yaml"
)

// version is set by the linker.
var version string

// versionInfo is the output of `setpoint version`.
type versionInfo struct {
	Version      string `json:"version"`
	Commit       string `json:"commit,omitempty"`
	Go           string `json:"go"`
	Platform     string `json:"platform"`
	ControlPlane bool   `json:"controlPlane"`
}

// readVersion returns the linked version, or that of the Go build info.
func readVersion() versionInfo {
	info := versionInfo{Version: version, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	if build, ok := debug.ReadBuildInfo(); ok {
		info.learn(build)
	}
	if info.Version == "" {
		info.Version = "unknown"
	}
	return info
}

func (v *versionInfo) learn(build *debug.BuildInfo) {
	if v.Version == "" {
		v.Version = build.Main.Version
	}
	for _, setting := range build.Settings {
		if setting.Key == "vcs.revision" {
			v.Commit = setting.Value
		}
	}
}

func (p *program) versionCommand() *cobra.Command {
	output := flags.OneOf("text", "json", "yaml")
	c := &cobra.Command{
		Use:     "version",
		Short:   "Print the version",
		Example: "  setpoint version -o json",
		Args:    noArguments,
		RunE: func(*cobra.Command, []string) error {
			info := readVersion()
			info.ControlPlane = p.Boot != nil
			return info.write(p.stdout, output.Value)
		},
	}
	addChoice(c, output, "output", "o", "output format")
	return c
}

func (v versionInfo) write(w io.Writer, format string) error {
	switch format {
	case "json":
		encoder := json.NewEncoder(w)
		encoder.SetIndent("", "  ")
		return encoder.Encode(v)
	case "yaml":
		text, err := yaml.Marshal(v)
		if err != nil {
			return err
		}
		_, err = w.Write(text)
		return err
	default:
		kind := "light, for a cluster you have"
		if v.ControlPlane {
			kind = "full, with a control plane inside"
		}
		_, err := fmt.Fprintf(w, "setpoint %s (%s)\n%s %s\n", v.Version, kind, v.Go, v.Platform)
		return err
	}
}
