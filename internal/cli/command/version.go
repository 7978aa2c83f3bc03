package command

import (
	"cmp"
	"runtime"
	"runtime/debug"
)

// version is set by the linker.
var version string

// VersionInfo is the output of `setpoint version`.
type VersionInfo struct {
	Version      string `json:"version"`
	Commit       string `json:"commit,omitempty"`
	Go           string `json:"go"`
	Platform     string `json:"platform"`
	ControlPlane bool   `json:"controlPlane"`
}

// ReadVersion returns the linked version, or that of the Go build info.
func ReadVersion() VersionInfo {
	info := VersionInfo{Version: version, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	if build, ok := debug.ReadBuildInfo(); ok {
		info.Version = cmp.Or(info.Version, build.Main.Version)
		for _, setting := range build.Settings {
			if setting.Key == "vcs.revision" {
				info.Commit = setting.Value
			}
		}
	}
	info.Version = cmp.Or(info.Version, "unknown")
	return info
}
