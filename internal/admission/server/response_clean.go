package server

import (
	"maps"
	"slices"
	"strings"
	"unicode"

	"k8s.io/apimachinery/pkg/util/validation"
)

// cleanWarnings drops warnings that the API server silently drops: empty ones, invalid
// UTF-8, and those beyond its limits.
func cleanWarnings(given []string) []string {
	var clean []string
	for _, warning := range given {
		warning = strings.Map(printable, strings.ToValidUTF8(warning, "\uFFFD"))
		if warning = strings.TrimSpace(warning); warning != "" {
			clean = append(clean, warning)
		}
	}
	return clean
}

func printable(c rune) rune {
	if unicode.IsControl(c) {
		return ' '
	}
	return c
}

// cleanAudit makes valid audit keys. The API server prefixes them with the webhook's
// name, and drops invalid ones.
func cleanAudit(given map[string]string) map[string]string {
	if len(given) == 0 {
		return nil
	}
	clean := make(map[string]string, len(given))
	// In order, so that of two that come to the same key the same one is left.
	for _, key := range slices.Sorted(maps.Keys(given)) {
		if allowed := auditKey(key); allowed != "" {
			clean[allowed] = given[key]
		}
	}
	return clean
}

// auditKey replaces invalid characters by dashes; "" if nothing is left.
func auditKey(key string) string {
	if !strings.Contains(key, "/") && len(validation.IsQualifiedName(key)) == 0 {
		return key
	}
	key = strings.Map(func(c rune) rune {
		if isAlphanumeric(c) || strings.ContainsRune("-_.", c) {
			return c
		}
		return '-'
	}, key)
	key = key[:min(len(key), validation.DNS1123LabelMaxLength)]
	return strings.TrimFunc(key, func(c rune) bool { return !isAlphanumeric(c) })
}

func isAlphanumeric(c rune) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}
