// Package guess masks what looks like a secret in texts and JSON, by its form or by the name before it. Values of Secrets
// that are known are for package redact.
package guess

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/redact"
)

// Mask replaces what looks like a secret.
const Mask = "***MASKED***"

// secretWord is in the names of what holds a secret. The word pass must end there, and begin as a word does in a name:
// passed and bypass are others.
const secretWord = `(?:passwords?|passwd|passphrase|(?:\b|_)pass\b|(?-i:[a-z]Pass|PASS)\b|pwd|secrets?|tokens?|api[-_]?keys?|access[-_]?keys?|private[-_]?keys?|credentials?|authorization|cookie)`

// restOfKey is the end of a private key whose begin was cut off, such as in a log that begins with it.
var restOfKey = regexp.MustCompile(`(?m)^(?:.*[A-Za-z0-9+/=]{40,}.*\n)*(?:.*\n)?.*-----END [A-Z ]*PRIVATE KEY-----`)

var privateKey = regexp.MustCompile(`-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z ]*PRIVATE KEY-----|$)`)

// hints are in every line in which the patterns may find something. They are much faster, and few lines of a
// large file have one.
var hints = []string{"pass", "pwd", "secret", "token", "key", "credential", "authorization", "cookie", "bearer", "basic", "://", "eyj",
	"akia", "gh", "glpat-", "xox", "aiza", "@tcp(", "@unix(", "curl", "sig=", "signature=", "code="}

// secretPatterns find secrets in a line by their form, or by the name before them. The first group stays.
var secretPatterns = []*regexp.Regexp{
	// JSON Web Tokens, such as those of ServiceAccounts.
	regexp.MustCompile(`()\beyJ[\w-]{8,}\.[\w-]{8,}\.?[\w-]*`),
	// Keys of well-known services.
	regexp.MustCompile(`()\b(?:AKIA[0-9A-Z]{16}|gh[pousr]_\w{20,}|glpat-[\w-]{20,}|xox[baprs]-[\w-]{10,}|AIza[\w-]{35})`),
	regexp.MustCompile(`(?i)(\b(?:bearer|basic)[ \t]+)[\w.~+/=-]{6,}`),
	// Users and passwords in URLs.
	regexp.MustCompile(`(://)[^/\s"'@]+@`),
	// Signatures and codes in URLs, which are as good as a password.
	regexp.MustCompile(`(?i)((?:[?&]|\\u0026)(?:sig|(?:x-[\w-]*-)?signature|code)=)[^&\s"'\\]+`),
	// Users and passwords of databases without a scheme, and of curl.
	regexp.MustCompile(`(\b[\w.-]+:)[^\s"']+(?:@tcp|@unix)\(`),
	regexp.MustCompile(`(\bcurl\b.*[ \t](?:-u|--user)[ \t]*[^\s:]+:)[^\s"']+`),
	// Flags with their value in the next word.
	regexp.MustCompile(`(?i)(--?[\w-]*` + secretWord + `[ \t]+)[^\s-][^\s]*`),
}

// secretField is a name with a value after it: of JSON, YAML, flags, queries of URLs, code.
var secretField = regexp.MustCompile(`(?i)((?:\\?["'])?([\w.$-]*` + secretWord +
	`[\w-]*)(?:\\?["'])?[ \t]*(?::=|[:=])[ \t]*)(\\"(?:[^"\\]|\\[^"])*\\"|"(?:[^"\\]|\\.)*"|'[^']*'|[^\s,;&"'}\])]+|["'].*)`)

// referenceSuffix are the ends of names whose value says where a secret is, and not what.
var referenceSuffix = regexp.MustCompile(`(?i)(name|ref|file|path|namespace|key|type|kind)$`)

// keyOfService is a key that is a secret itself.
var keyOfService = regexp.MustCompile(`(?i)(api|access|private|secret)[-_]?key$`)

// Text masks what looks like a secret in a text.
func Text(text string) string {
	if strings.Contains(text, "PRIVATE KEY") {
		text = restOfKey.ReplaceAllString(privateKey.ReplaceAllString(text, Mask), Mask)
	}
	var shown strings.Builder
	for line := range strings.Lines(text) {
		lower := strings.ToLower(line)
		if slices.ContainsFunc(hints, func(hint string) bool { return strings.Contains(lower, hint) }) {
			for _, pattern := range secretPatterns {
				line = pattern.ReplaceAllString(line, "${1}"+Mask)
			}
			line = secretField.ReplaceAllStringFunc(line, maskField)
		}
		shown.WriteString(line)
	}
	return shown.String()
}

// maskField masks the value of a field, unless it is a reference, a number or a boolean.
func maskField(field string) string {
	parts := secretField.FindStringSubmatch(field)
	name, value := parts[2], parts[3]
	plain := strings.Trim(value, `\"'`)
	refers := referenceSuffix.MatchString(name) && !keyOfService.MatchString(name)
	if refers || slices.Contains([]string{"", "true", "false", "null", "{}", "[]", "{", "[", "|", ">", Mask}, plain) {
		return field
	}
	quote := value[:len(value)-len(strings.TrimLeft(value, `\"'`))]
	return parts[1] + quote + Mask + quote
}

// harmlessVariables are variables whose values are shown.
var harmlessVariables = regexp.MustCompile(`^(?:GO(?:MEMLIMIT|GC|MAXPROCS|DEBUG)|POD_NAME|POD_NAMESPACE|SETPOINT_NAMESPACES|TZ|LANG)$`)

// JSON masks the value of a field in place and returns it: values of Secrets, variables, arguments after flags, and
// what looks like a secret in any text. The name of a list counts for the texts in it.
func JSON(name string, value any) any {
	switch value := value.(type) {
	case map[string]any:
		delete(value, "managedFields")
		if object.IsSecret(value) {
			redact.Secret(value, Mask)
		}
		variable, named := value["name"].(string)
		if _, literal := value["value"].(string); named && literal && len(value) == 2 && !harmlessVariables.MatchString(variable) {
			value["value"] = Mask
		}
		for inner, each := range value {
			value[inner] = JSON(inner, each)
		}
	case []any:
		for i, each := range value {
			text, isText := each.(string)
			if i > 0 && isText && !strings.HasPrefix(text, "-") && secretFlag.MatchString(fmt.Sprint(value[i-1])) {
				each = Mask
			}
			value[i] = JSON(name, each)
		}
	case string:
		const separator = ": "
		if object.IsLastApplied(name) || strings.HasPrefix(Text(name+separator+value), name+separator+Mask) {
			return Mask // The name says that it is a secret, or has a copy of one.
		}
		return Text(value)
	}
	return value
}

var secretFlag = regexp.MustCompile(`(?i)^--?[\w-]*` + secretWord + `$`)
