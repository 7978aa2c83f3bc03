package locate

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
)

// ClusterFolder returns the folder in which sessions of this user publish themselves that develop against a
// cluster they have not booted, by the URL of its API server. It need not exist.
func ClusterFolder(server string) (string, error) {
	base, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find the folder for sessions: %w", err)
	}
	sum := sha256.Sum256([]byte(server))
	return filepath.Join(base, "setpoint", "dev", hex.EncodeToString(sum[:8])), nil
}

// CreateClusterFolder creates ClusterFolder, private to the user.
func CreateClusterFolder(server string) (string, error) {
	folder, err := ClusterFolder(server)
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return "", fmt.Errorf("create the folder for sessions: %w", err)
	}
	return folder, nil
}
