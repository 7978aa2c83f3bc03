package dev

import (
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/setpoint-dev/setpoint/internal/inspect/locate"
)

const (
	// leftoverAge is the age from which leftovers are removed by the next session.
	leftoverAge = 24 * time.Hour
	// StartTime is how long a session may take to lock a folder that it has created.
	StartTime = time.Hour
	// inspectPrefix and clusterPrefix begin the names of the inspect folder and of the folder of a control plane.
	inspectPrefix = "setpoint-inspect-"
	clusterPrefix = "setpoint-cluster-"
)

// temporaryPrefixes begin the names of temporary folders, before some digits. A file in a folder is locked as long as it
// is in use.
var temporaryPrefixes = []string{inspectPrefix, "setpoint-operator-", clusterPrefix}

// kubeconfigSuffix ends the names of kubeconfigs with credentials, which are locked as long as they are in use.
const kubeconfigSuffix = ".kubeconfig"

// Leftovers returns what sessions of this user that were killed have left on this machine, if it is older: temporary
// folders, and kubeconfigs with credentials. Their processes have ended with them. It removes nothing.
func Leftovers(before time.Time) []string {
	var all []string
	for _, prefix := range temporaryPrefixes {
		folders, _ := filepath.Glob(filepath.Join(os.TempDir(), prefix+"[0-9]*")) // The pattern is valid.
		all = append(all, folders...)
	}
	if folder, err := locate.ClusterFolder(""); err == nil {
		kubeconfigs, _ := filepath.Glob(filepath.Join(filepath.Dir(folder), "*", "*"+kubeconfigSuffix)) // So is this one.
		all = append(all, kubeconfigs...)
	}
	return slices.DeleteFunc(all, func(path string) bool {
		about, err := os.Stat(path)
		return err != nil || !about.ModTime().Before(before) || inUse(path)
	})
}

// inUse reports whether a process holds the lock of a kubeconfig, or of a file in a folder. A folder of another user
// counts as one in use, and so does a cluster to keep.
func inUse(folder string) bool {
	if filepath.Ext(folder) == kubeconfigSuffix {
		return locate.IsLocked(folder)
	}
	files, err := os.ReadDir(folder)
	about, _ := os.ReadFile(filepath.Join(folder, "cluster.json")) // Without it, the control plane has not started yet.
	kept := strings.HasPrefix(filepath.Base(folder), clusterPrefix) && !strings.Contains(string(about), `"temporary": true`)
	return err != nil || kept || slices.ContainsFunc(files, func(file os.DirEntry) bool {
		return file.Type().IsRegular() && locate.IsLocked(filepath.Join(folder, file.Name()))
	})
}

// removeOld removes leftovers that are older than a day.
func removeOld(log *slog.Logger, now time.Time) {
	for _, path := range Leftovers(now.Add(-leftoverAge)) {
		if err := os.RemoveAll(path); err != nil {
			log.Warn("what a killed session left is not removed", "path", path, "error", err.Error())
		}
	}
}
