//go:build !race

package form_test

const mostMiB = 64
