package admission

import (
	"maps"
	"slices"
	"strings"
	"unicode"

	"k8s.io/apimachinery/pkg/util/validation"
)

// cleanWarnings are those that the API server passes on: it drops, without a word to the
// user, what is empty, no UTF-8, or has line breaks in it.
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

// cleanAudit has the keys that the API server takes. It puts the webhook's name and a slash
// before each, and drops those that are no label's key then.
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

// auditKey is a key with dashes for what it may not have in it; empty if nothing else
// is left.
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
