package components

import (
	"runtime/debug"
	"strings"
	_ "unsafe" // for linkname

	"k8s.io/component-base/version"
)

// Kubernetes has its version stamped in by the linker of its release builds, and
// says v0.0.0-master without; clients that compare versions then go astray. We
// are built with plain "go build" and "go test" and know the version anyway, from
// the module list. Its package offers no other way in than these variables.

//go:linkname gitVersion k8s.io/component-base/version.gitVersion
var gitVersion string

//go:linkname gitMajor k8s.io/component-base/version.gitMajor
var gitMajor string

//go:linkname gitMinor k8s.io/component-base/version.gitMinor
var gitMinor string

// stampVersion has all components and kubectl report the release they are.
func stampVersion() {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return
	}
	for _, module := range info.Deps {
		if module.Path == "k8s.io/kubernetes" {
			setVersion(module.Version)
		}
	}
}

func setVersion(release string) {
	parts := strings.SplitN(strings.TrimPrefix(release, "v"), ".", 3)
	if len(parts) != 3 {
		return
	}
	gitVersion, gitMajor, gitMinor = release, parts[0], parts[1]
	// It only refuses versions unlike gitVersion.
	_ = version.SetDynamicVersion(release)
}
