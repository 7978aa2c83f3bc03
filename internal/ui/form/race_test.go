//go:build race

package form_test

// The race detector has sync.Pool drop what regular expressions keep there, so that each
// match allocates anew.
const mostMiB = 1536
