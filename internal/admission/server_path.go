package admission

import (
	"net/url"
	"strings"
)

// What requests are for, by the first segment of their path.
const (
	forReviews = "admit"
	forProbes  = "probe"
)

// reviewPath is where the API server asks a webhook. It takes a path of a Service
// only if each segment is a DNS subdomain, so that is what names should be.
func reviewPath(program, webhook string) string {
	return "/" + forReviews + "/" + url.PathEscape(program) + "/" + url.PathEscape(webhook)
}

// probePath is where the API server is asked to ask, to see whether it can.
func probePath(program string) string { return "/" + forProbes + "/" + url.PathEscape(program) }

// segments are the parts of a path between slashes; nil if it is none of ours.
func segments(escaped string) []string {
	parts := strings.Split(strings.TrimPrefix(escaped, "/"), "/")
	for i, part := range parts {
		plain, err := url.PathUnescape(part)
		if err != nil {
			return nil
		}
		parts[i] = plain
	}
	return parts
}
