package dev

import (
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/setpoint-dev/setpoint/internal/inspect/locate"
	"github.com/setpoint-dev/setpoint/internal/lists"
)

const (
	// leftoverAge is the age from which leftovers are removed by the next session.
	leftoverAge = 24 * time.Hour
	// startTime is how long a session may take to lock the first file in a folder that it has created.
	startTime = time.Minute
	// inspectPrefix and clusterPrefix begin the names of the inspect folder and of the folder of a control plane.
	inspectPrefix = "setpoint-inspect-"
	clusterPrefix = "setpoint-cluster-"
)

// temporaryPrefixes begin the names of temporary folders, before some digits. A file in a folder is locked as long as it
// is in use.
var temporaryPrefixes = []string{inspectPrefix, "setpoint-operator-", clusterPrefix}

// Leftovers returns what sessions of this user that were killed have left on this machine, if it is older: temporary
// folders, and kubeconfigs with credentials. Their processes have ended with them. The kernel removes the lock of a process that
// ends, so that another one with the same PID does not matter. It removes nothing.
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
		return err != nil || !about.ModTime().Before(before) || inUse(path, about)
	})
}

// inUse reports whether a process holds the lock of a kubeconfig, or of a file in a folder, or may be about to lock the first
// one. A folder of another user counts as one in use, and so does a cluster to keep.
func inUse(path string, about os.FileInfo) bool {
	starting := time.Since(about.ModTime()) < startTime
	if filepath.Ext(path) == kubeconfigSuffix {
		return locate.IsLocked(path) || starting && about.Size() == 0
	}
	entries, err := os.ReadDir(path)
	// Files get their names when they are locked. Before, these begin with a dot.
	files := lists.Filter(entries, func(file os.DirEntry) bool { return file.Type().IsRegular() && file.Name()[0] != '.' })
	return err != nil || isKeptCluster(path, entries) || starting && len(files) == 0 ||
		slices.ContainsFunc(files, func(file os.DirEntry) bool { return locate.IsLocked(filepath.Join(path, file.Name())) })
}

// isKeptCluster reports whether a folder of a control plane is not said to be temporary. One whose process was killed before
// it could say so has its lock only.
func isKeptCluster(path string, entries []os.DirEntry) bool {
	cluster, err := os.ReadFile(filepath.Join(path, "cluster.json"))
	killed := errors.Is(err, fs.ErrNotExist) && (len(entries) == 0 || len(entries) == 1 && entries[0].Name() == "holder")
	return strings.HasPrefix(filepath.Base(path), clusterPrefix) && !killed && !strings.Contains(string(cluster), `"temporary": true`)
}

// removeOld removes leftovers that are older than a day.
func removeOld(log *slog.Logger, now time.Time) {
	for _, path := range Leftovers(now.Add(-leftoverAge)) {
		if err := os.RemoveAll(path); err != nil {
			log.Warn("what a killed session left is not removed", "path", path, "error", err.Error())
		}
	}
}
