package admission

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// The paths by which a Server is asked and by which configurations send for it.
// Configurations have them with a token: see PathKey.
// API servers take them where every step is a DNS name, and not if it is escaped.

// admitPath is where the API server asks a webhook of the program.
func (p *Program) admitPath(webhook string) string {
	return "/admit/" + pathSegment(p.configuration()) + "/" + pathSegment(webhook)
}

// probePath is where it asks when we want to know whether it can.
func (p *Program) probePath() string { return "/probe/" + pathSegment(p.configuration()) }

// configuration is what the program is called where the API server sees it.
func (p *Program) configuration() string { return cmp.Or(p.Configuration, p.Name) }

// probeWarning is the warning by which the answer to a probe is known, which allows
// whatever it is asked: the probe alone sees it.
const probeWarning = "setpoint was asked"

// pathSegment is a name as a step of a path: itself if it may be one, else what of it may
// and a digest.
func pathSegment(name string) string {
	if len(validation.IsDNS1123Subdomain(name)) == 0 {
		return name
	}
	return strings.TrimLeft(sanitizeName(name)+"-"+digest(name), "-")
}

// sanitizeName has dashes for everything that names may not hold.
func sanitizeName(name string) string {
	plain := strings.Map(func(c rune) rune {
		if c >= 'a' && c <= 'z' || c >= '0' && c <= '9' {
			return c
		}
		return '-'
	}, strings.ToLower(name))
	return plain[:min(len(plain), 50)]
}

// digest is a short hash of a text.
func digest(text string) string {
	sum := fnv.New64a()
	_, _ = sum.Write([]byte(text)) // A hash takes everything.
	return fmt.Sprintf("%016x", sum.Sum64())
}
