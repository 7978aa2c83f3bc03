package serving

// defaultMaxFiles is the limit of a process without one, as far as it is useful.
const defaultMaxFiles = 64 << 10

// maxReviewConnections limits the connections of API servers: half of the files are for
// hooks, and the rest must leave some for health, metrics and the API server.
func maxReviewConnections(files int) int { return max(4, min(512, files/4)) }
