package manager

// defaultMaxFiles is what a process has that is not limited, as far as it is of use.
const defaultMaxFiles = 64 << 10

// maxReviewConnections is how many connections API servers may make: half of the files
// belong to hooks, and of the rest something is left for health, metrics and the API
// server.
func maxReviewConnections(files int) int { return max(4, min(512, files/4)) }
