package command

import (
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
		info.learn(build)
	}
	if info.Version == "" {
		info.Version = "unknown"
	}
	return info
}

func (v *VersionInfo) learn(build *debug.BuildInfo) {
	if v.Version == "" {
		v.Version = build.Main.Version
	}
	for _, setting := range build.Settings {
		if setting.Key == "vcs.revision" {
			v.Commit = setting.Value
		}
	}
}
