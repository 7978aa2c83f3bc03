package admission

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// The paths of a Server. Configurations have them with a token: see PathKey. API servers
// accept paths whose segments are DNS names.

// admitPath is the path of a webhook.
func (p *Program) admitPath(webhook string) string {
	return "/admit/" + pathSegment(p.configuration()) + "/" + pathSegment(webhook)
}

// probePath is the path of the probe.
func (p *Program) probePath() string { return "/probe/" + pathSegment(p.configuration()) }

// configuration is the name of the program's configurations.
func (p *Program) configuration() string { return cmp.Or(p.Configuration, p.Name) }

// probeWarning identifies the response of a probe, which the probe alone receives.
const probeWarning = "setpoint received the request"

// pathSegment returns a name as a path segment: itself if it is valid, or a valid prefix
// with a digest.
func pathSegment(name string) string {
	if len(validation.IsDNS1123Subdomain(name)) == 0 {
		return name
	}
	return strings.TrimLeft(sanitizeName(name)+"-"+digest(name), "-")
}

// sanitizeName replaces invalid characters by dashes.
func sanitizeName(name string) string {
	plain := strings.Map(func(c rune) rune {
		if c >= 'a' && c <= 'z' || c >= '0' && c <= '9' {
			return c
		}
		return '-'
	}, strings.ToLower(name))
	return plain[:min(len(plain), 50)]
}

// digest is a short hash.
func digest(text string) string {
	sum := fnv.New64a()
	_, _ = sum.Write([]byte(text)) // A hash takes everything.
	return fmt.Sprintf("%016x", sum.Sum64())
}
